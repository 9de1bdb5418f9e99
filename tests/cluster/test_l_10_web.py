# SPDX-License-Identifier: GPL-2.0-or-later
"""The page 10: dprd-web of n1 shows the cluster as dprctl does, under load and when nodes and dprd die; the page itself in a
headless Chromium."""
import contextlib
import http.client
import json
import os
import sys

import pytest

from faultlib import FIRST_SYN_S, PATIENCE_S, kill_host, load, wait_for
from traffic import CLIENT

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "web"))

import browser

PORT = 7981
SEEN_S = 2  # a node that died is shown within this time
SAME = ("schema", "node", "cluster", "version", "pid", "datapath", "policy", "ports", "state", "max_load", "config_hash", "flows", "shared",
        "warnings", "notes")
SAME_OF_MEMBER = ("name", "state", "eligible", "why_not", "address", "weight", "forwarded_v4", "forwarded_v6", "version", "ports_down")


def ask(cluster, path):
    """(status, body) of a page of n1's dprd-web."""
    with cluster.site.inside("n1"), contextlib.closing(http.client.HTTPConnection("127.0.0.1", PORT, timeout=30)) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def shown(cluster):
    return json.loads(ask(cluster, "/status.json")[1])


def answers(cluster):
    try:
        return ask(cluster, "/")[0] == 200
    except OSError:
        return False


@pytest.fixture(name="web3")
def fixture_web3(own3):
    """The cluster, with dprd-web on n1 as its unit starts it."""
    if not os.access(own3.program("bin/dprd-web"), os.X_OK):
        pytest.skip("dprd-web was not built: it needs libmicrohttpd-dev")
    own3.set_policy("rr")
    log = os.path.join(own3.node("n1").directory, "web.log")
    child = own3.site.start("n1", [own3.program("bin/dprd-web"), "-c", own3.config_path("n1"), "--node", "n1"], log)
    try:
        wait_for(lambda: answers(own3), "dprd-web answers", PATIENCE_S)
        yield own3
        assert child.poll() is None, "dprd-web ended"
    finally:
        child.terminate()
        child.wait(10)
        own3.site.reap()


def differences(cluster):
    """The values that stand still now, and that the page shows otherwise than dprctl."""
    page, told = shown(cluster), cluster.status("n1")
    found = [key for key in SAME if page.get(key) != told[key]]
    for here, there in zip(page["members"], told["members"]):
        found += [f"{there['name']}: {key}" for key in SAME_OF_MEMBER if here.get(key) != there[key]]
    return found


def names_of(metrics):
    return [line.partition(" ")[0] for line in metrics.splitlines() if not line.startswith("#")]


def decisions(answer):
    """Without their ages."""
    return [{key: value for key, value in decision.items() if key not in ("age_ms", "peers")} for decision in answer["decisions"]]


def check_why(cluster, connect):
    """The page tells the decisions about a connection as dprctl does."""
    family = "v6" if ":" in connect.to else "v4"
    client = f"[{CLIENT[family]}]:{connect.port}" if family == "v6" else f"{CLIENT[family]}:{connect.port}"
    page = json.loads(ask(cluster, f"/why.json?client={client}")[1])
    assert decisions(page) == decisions(json.loads(cluster.dprctl("n1", "why", "--json", "--all", client))), client
    assert page["decisions"], f"no decision about {client}"
    return client


def test_l10_page_and_dprctl_agree(web3):
    """Under load the page has what dprctl has; a dead host is shown within 2 s, a dead dprd at once, and both when they are
    back. Nothing of it costs a connection."""
    with load(web3, ["n1", "n2"], flows=20) as work:
        wait_for(lambda: shown(web3)["totals"]["forwarded"] > 40, "forwarded connections are shown", PATIENCE_S)
    work.check_flows()
    work.check_connects(FIRST_SYN_S)
    wait_for(lambda: not differences(web3), "the page has the values of dprctl", PATIENCE_S)
    assert names_of(ask(web3, "/metrics")[1]) == names_of(web3.dprctl("n1", "metrics"))
    for connect in work.made(to="n1")[-2:]:
        check_why(web3, connect)
    assert web3.site.ask("n1", ["ss", "-Hltn", f"sport = :{PORT}"]).split()[3] == f"127.0.0.1:{PORT}"
    kill_host(web3, "n3")
    wait_for(lambda: not shown(web3)["members"][2]["eligible"], "n3 is shown as dead", SEEN_S)
    web3.kill("n1", "dprd")
    wait_for(lambda: shown(web3).get("state") == "down", "dprd is shown as dead", SEEN_S)
    assert "\ndprd_up 0\n" in ask(web3, "/metrics")[1]
    web3.start("n1", "dprd")
    wait_for(lambda: shown(web3).get("datapath"), "dprd is shown again", PATIENCE_S)


CELL = "document.querySelector('[data-member={}] [data-key={}]').textContent"
WORD = "document.querySelector('[data-node={}]').dataset.word"
CLASS = "document.querySelector('[data-node={}]').getAttribute('class')"
LOOKS = {"light": (1280, 900, "light"), "dark": (1280, 900, "dark"), "phone": (390, 844, "light", True),
         "phone-dark": (360, 740, "dark", True), "wall": (2560, 1440, "dark")}


def cells(page, names, key):
    return [page.value(CELL.format(name, key)) for name in names]


def check_values(cluster, page):
    """The cells of the table, which stand still without load, are the values of dprctl."""
    members = cluster.status("n1")["members"]
    names = [member["name"] for member in members]
    sent = ["\u2013" if member["self"] else str(member["forwarded_v4"] + member["forwarded_v6"]) for member in members]
    wait_for(lambda: [text.replace("\u202f", "") for text in cells(page, names, "forwarded")] == sent, "the forwarded connections", PATIENCE_S)
    for key in ("weight", "address", "version"):
        assert cells(page, names, key) == [str(member[key]) for member in members], key
    wait_for(lambda: cells(page, names, "open_connections") == [str(member["open_connections"]) for member in cluster.status("n1")["members"]],
             "the open connections", PATIENCE_S)


@pytest.mark.long("a browser takes half a minute on a busy host")
@pytest.mark.seconds(240)
def test_l11_browser(web3):
    """The page in a headless Chromium: under load it shows rates and ways; its values are dprctl's; a dead host turns red
    within 2 s, a dead dprd and a dead dprd-web are told; the search answers; in all sizes nothing is cut off; and the browser
    has no error to tell. Pictures: PICTURES names a directory for them."""
    reason = browser.missing()
    if reason:
        pytest.skip(reason)
    site = web3.site
    with contextlib.closing(browser.Browser(f"http://127.0.0.1:{PORT}/", prefix=["ip", "netns", "exec", site.name("n1")],
                                            inside=lambda: site.inside("n1"))) as page:
        with load(web3, ["n1", "n2"]) as work:
            page.wait("[...document.querySelectorAll('[data-way] .arrow:not(.idle)')].length == 2")
            page.wait("[...document.querySelectorAll('#rates .curve')].some((curve) => curve.getAttribute('d').includes('L'))")
            take_pictures(page)
        work.check_flows()
        work.check_connects(FIRST_SYN_S)
        check_values(web3, page)
        client = check_why(web3, work.made(to="n1")[-1])
        page.value(f"document.getElementById('client').value = '{client}', document.querySelector('#why button').click()")
        page.wait("document.querySelector('#decisions article') !== null")
        assert client in page.value("document.getElementById('decisions').textContent")
        kill_host(web3, "n3")
        wait_for(lambda: page.value(CLASS.format("n3")) == "bad", "n3 turns red", SEEN_S)
        page.wait("document.querySelector('#warning-list').textContent.includes('n3')")
        assert page.value(WORD.format("n2")) == "up" and page.value(CLASS.format("n2")) == "up"
        web3.kill("n1", "dprd")
        wait_for(lambda: page.value("!document.getElementById('banner').hidden"), "the banner tells that dprd is dead", SEEN_S + 1)
        assert page.value(CLASS.format("n1")) == "bad"
        kill_host(web3, "n2")
        wait_for(lambda: page.value(WORD.format("n2")) == "LATE", "the files tell that n2 died, too", PATIENCE_S)
        web3.start("n1", "dprd")
        page.wait("document.getElementById('banner').hidden")
        assert not page.errors, page.errors


def take_pictures(page):
    """In each size, with a picture where it is wanted: nothing is wider than the window."""
    for name, look in LOOKS.items():
        page.look(*look)
        page.wait(f"innerWidth == {look[0]}")
        page.value("new Promise((done) => setTimeout(done, 1500))")  # the next answer is drawn
        assert page.value("document.documentElement.scrollWidth <= innerWidth"), f"{name}: wider than the window"
        if "PICTURES" in os.environ:
            page.picture(os.path.join(os.environ["PICTURES"], f"{name}.png"))
