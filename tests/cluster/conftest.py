# SPDX-License-Identifier: GPL-2.0-or-later
"""Clusters for the scenario tests, and the checks after every test.

A test takes one of these fixtures; topology and words are in tests/lab/cluster.py:

    own3      three nodes with cluster addresses of their own (10.80.0.11 .. 13 on eth1)
    one3      three nodes with one address each
    cluster3  the test runs twice: with own3 and with one3
    clusters  clusters.get(name, nodes=4, ...): other clusters, by name; clusters.fresh(...): for one test only

Each is raised at its first use and kept for later tests; its daemons stand still while no test uses it. Before every
test it is as at the start: all hosts, daemons and servers run, no fault, no drain, Policy=local, all nodes see all. A
test that failed leaves no cluster: the next test gets a new one. After every test the law of the counters is checked on
all living nodes: seen = served + forwarded + passed + dropped + decapsulated.

The environment variable DPRD_PLANE names the plane: bpf or nfqueue. Every scenario runs on both (rungs.py); where
the inside of a node differs, the test asks cluster.plane.

A test that runs longer than 60 s fails (@pytest.mark.seconds(n) says otherwise). Runs with the same DPRD_BUILD may
go on at the same time. Tests that load the host (@pytest.mark.alone) and second tries have it for themselves: the
others wait.

Only a test that took too long gets a second try (netns.Late, a time limit). Any other failure is red at once: a
wrong answer, a reset, a lost byte, counters that do not add up are never the host's fault.
"""
import contextlib
import fcntl
import os
import signal
import sys

import pytest
from _pytest.runner import runtestprotocol

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lab"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import rungs
from cluster import Cluster
from netns import LabError, Late

TEST_SECONDS = 60
FIXTURE_SECONDS = 60
SECOND_TRIES = 3  # in one run; more failures than these are not bad luck
LOG_BYTES = 4000
OWN_PORTS = "20000-20999"  # client ports that a test may choose
CLUSTERS_MOST = 3  # clusters that are kept
FORMS = {"own3": {"layout": "own"}, "one3": {"layout": "one"}}


class Clusters:
    """The clusters that are up, by name."""

    def __init__(self):
        self.up = {}
        self.used = []  # clusters used by the running test
        self.made_for_one = []

    def get(self, name, **options):
        """The cluster of this name, as at its start; raised with options (of class Cluster) when it does not exist."""
        found = self.up.pop(name, None)
        self._pause_idle()
        if found is not None:
            try:
                if found.paused:
                    found.go_on()
                reset(found)
            except LabError:
                found.down()
                found = None
        if found is None:
            self._make_room()
            found = make(**{**FORMS.get(name, {}), **options})
        self.up[name] = found  # now the newest
        self.used.append(found)
        return found

    def _pause_idle(self):
        """Clusters that the running test does not use stand still: idle daemons take a third of the host otherwise."""
        for cluster in self.up.values():
            if cluster not in self.used and not cluster.paused:
                cluster.pause()

    def _make_room(self):
        """Removes the clusters unused for the longest time; never one that the running test uses."""
        idle = [cluster for cluster in self.up.values() if cluster not in self.used]
        for cluster in idle[:max(0, len(self.up) - CLUSTERS_MOST + 1)]:
            self.discard(cluster)

    def fresh(self, daemons=True, **options):
        """A cluster for this test only."""
        self._pause_idle()
        found = make(daemons, **options)
        self.made_for_one.append(found)
        self.used.append(found)
        return found

    def discard(self, cluster):
        self.up = {name: other for name, other in self.up.items() if other is not cluster}
        if cluster in self.made_for_one:
            self.made_for_one.remove(cluster)
        cluster.down()

    def remove_all(self):
        for cluster in list(self.up.values()) + list(self.made_for_one):
            self.discard(cluster)


def base_config(cluster):
    cluster.overrides = {}
    cluster.set_config("Balance", "Policy", "local")


def make(daemons=True, **options):
    cluster = Cluster(**{"nodes": 3, "stranger": True, "keepalive": True, "file_count": 20,
                         "file_cap_bytes": 100_000, **options})
    cluster.up()
    try:
        for client in cluster.clients:  # no other socket may take a test's own ports
            cluster.site.sysctl(client, {"net.ipv4.ip_local_reserved_ports": OWN_PORTS})
        base_config(cluster)
        if daemons:
            cluster.start_daemons()
            check_plane(cluster)
    except BaseException:
        print(cluster_logs(cluster))
        cluster.down()
        raise
    return cluster


def check_plane(cluster):
    """Makes sure that the scenario runs on the right plane."""
    for node in cluster.nodes:
        status = cluster.status(node)
        if status["datapath"] != cluster.plane:
            raise LabError(f"{node.name} runs on plane {status['datapath']}: {status['datapath_why']}")


def drop_connections(cluster, node):
    """Ends sockets that a former test left at a node's servers. Their clients are gone, and they would last for
    minutes: a server sends its remaining data again and again (tcp_orphan_retries of tests/lab/cluster.py)."""
    cluster.site.ask(node.name, ["ss", "-HK", "state", "connected", "exclude", "time-wait",
                                 "( sport = :80 or sport = :8080 or sport = :8081 )"], check=False)


def restore_programs(cluster, node):
    """Makes host, web servers and daemons of a node run, whatever a test did to them."""
    if not node.alive:
        cluster.restart_host(node, with_daemons=False)
    if any(child.poll() is not None for child in cluster.webs.get(node.name, [])):
        cluster.stop_web(node)
    if node.name not in cluster.webs:
        cluster.start_web(node)
    drop_connections(cluster, node)
    for daemon in ("loadcast", "dprd"):
        if os.path.exists(cluster.log_path(node, daemon)):
            os.truncate(cluster.log_path(node, daemon), 0)
        if cluster.daemon_alive(node, daemon):
            cluster.resume(node, daemon)
        else:
            cluster.daemons.pop((node.name, daemon), None)
            cluster.start(node, daemon)


def restore_state(cluster, node):
    """Gives a node's dprd the first configuration, without drain."""
    status = cluster.wait_until(lambda: cluster.status(node), f"dprd of {node.name} answers")
    if cluster.loaded.get(node.name) != (cluster.pid(node, "dprd"), cluster.config_text(node)):
        cluster.dprctl(node, "reload")
    if status["state"] == "draining":
        cluster.dprctl(node, "undrain")


def ways_arrive(cluster, node):
    """True when no peer tells a node that its probes do not arrive."""
    status = cluster.status(node)
    return status and not any(member[key] is False for member in status["members"] for key in ("arrives_v4", "arrives_v6"))


def reset(cluster):
    """Restores everything as at the start. Only things that a test touched cost time."""
    base_config(cluster)
    cluster.heal()
    for node in cluster.nodes:
        cluster.write_config(node)
        restore_programs(cluster, node)
    for node in cluster.nodes:
        restore_state(cluster, node)
    cluster.wait_ready()
    cluster.wait_until(lambda: all(ways_arrive(cluster, node) for node in cluster.nodes), "all ways are proven again")
    check_plane(cluster)


def law_problem(status):
    """Tells how the counters break their law; None when they keep it."""
    totals = dict(status["totals"])
    seen = totals.pop("seen")
    decisions = sum(decision["count"] for decision in status["decisions"].values())
    if seen == sum(totals.values()) == decisions:
        return None
    return f"seen {seen} is not the sum of {totals}, or not that of the reasons, {decisions}"


def check_law(cluster):
    problems = []
    for node in cluster.nodes:
        if node.alive and cluster.daemon_alive(node, "dprd"):
            status = cluster.status(node)  # a frozen dprd has no answer
            problem = law_problem(status) if status else None
            if problem:
                problems.append(f"{node.name}: {problem}")
    assert not problems, "; ".join(problems)


def cluster_logs(cluster):
    parts = []
    for node in cluster.nodes:
        for daemon in ("dprd", "loadcast"):
            text = cluster.log_text(node, daemon)
            parts.append(f"-- {node.name} {daemon}.log{' (end)' if len(text) > LOG_BYTES else ''}\n{text[-LOG_BYTES:]}")
        if node.alive and cluster.daemon_alive(node, "dprd"):
            parts.append(f"-- {node.name} dprctl status\n{cluster.dprctl(node, 'status', check=False)}")
    return "\n".join(parts)


# ---- fixtures ----

@pytest.fixture(scope="session")
def session_clusters():
    held = Clusters()
    yield held
    held.remove_all()


@pytest.fixture
def clusters(session_clusters):
    return session_clusters


@pytest.fixture(autouse=True)
def law(request, session_clusters):
    """Checks the law of the counters after each test, and leaves no broken cluster for the next."""
    session_clusters.used = []
    yield
    reports = getattr(request.node, "reports", {})
    failed = any(report.failed for report in reports.values())
    try:
        if all(map(only_late, filter(lambda report: report.failed, reports.values()))):
            for cluster in session_clusters.used:
                check_law(cluster)
    except BaseException:
        failed = True
        raise
    finally:
        for cluster in list(session_clusters.used):
            if failed or cluster in session_clusters.made_for_one:
                session_clusters.discard(cluster)


@pytest.fixture
def own3(session_clusters, law):
    return session_clusters.get("own3")


@pytest.fixture
def one3(session_clusters, law):
    return session_clusters.get("one3")


@pytest.fixture(params=["own3", "one3"], ids=["own", "one"])
def cluster3(request, session_clusters, law):
    return session_clusters.get(request.param)


# ---- planes, rungs ----

claims = rungs.Claims(os.environ.get("CLUSTER_CLAIMS"))
left_out = []  # lines of the summary


def pytest_collection_modifyitems(config, items):
    choice = rungs.quick_choice(items, rungs.QUICK) if rungs.QUICK else None
    kept = []
    for item in items:
        reason = rungs.why_not(item, rungs.DATAPATH)
        if reason:
            left_out.append(f"not for this plane: {item.name}: {reason}")
        elif reason is None and rungs.QUICK and rungs.long_reason(item):
            left_out.append(f"left to check-all: {item.name}: {rungs.long_reason(item)}")
        elif reason is None and (choice is None or (item.nodeid, rungs.DATAPATH) in choice):
            kept.append(item)
    dropped = [item for item in items if item not in kept]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
    # Tests that have the host for themselves come first: later each of them would wait until all others have ended.
    items[:] = sorted(kept, key=lambda item: item.get_closest_marker("alone") is None)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    claims.expect(len(session.items))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session):
    """Does as pytest's own loop, but only for tests that no other process takes. pytest must know the next test while
    one runs."""
    if session.testsfailed or session.config.option.collectonly:
        return None
    mine = (item for item in session.items if claims.take(item))
    item = next(mine, None)
    while item is not None:
        following = next(mine, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail or session.shouldstop:
            raise session.Interrupted(session.shouldfail or session.shouldstop)
        item = following
    return True


def pytest_sessionfinish(session, exitstatus):
    """When only scenarios of the other plane or rung were named, there is nothing to run, and no error."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and left_out:
        session.exitstatus = pytest.ExitCode.OK


# ---- runs side by side ----

@contextlib.contextmanager
def locked(name, how):
    with open(os.path.join(os.environ.get("DPRD_BUILD", "build"), name), "w", encoding="ascii") as file:
        fcntl.flock(file, how)
        yield


@contextlib.contextmanager
def host(alone):
    """One test of each run holds it, or one test alone. A test that waits to be alone stands in the gate: the others
    queue behind it."""
    with contextlib.ExitStack() as held:
        with locked("cluster.gate", fcntl.LOCK_EX):
            held.enter_context(locked("cluster.lock", fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        yield


# ---- second tries ----

unsteady = {}  # first failures: {test: (one line, its failure), or None when it failed again}


def failure_line(report):
    """The first line of a failure; pytest has none for its own failures."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return crash.message.partition("\n")[0] if crash else str(report.longrepr).rpartition("\n")[2]


def failure_text(report):
    """A failure in full, with the logs of its clusters."""
    return "\n".join([report.longreprtext] + [f"-- {title}\n{text}" for title, text in report.sections])


def only_late(report):
    """True when a failure only tells that something took too long. Nothing else gets a second try."""
    return report.failed and getattr(report, "late", False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item, nextitem):
    """A scenario in which something took too long gets a second try, on a new cluster: the host may have stood
    still for a second. Both tries are reported; a scenario that fails twice has failed."""
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    with host(alone=item.get_closest_marker("alone") is not None):
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
    failures = [report for report in reports if report.failed]
    if failures and all(map(only_late, failures)) and len(unsteady) < SECOND_TRIES:
        first = failures[0]
        item.reports = {}
        item._initrequest()  # its fixtures are made anew
        with host(alone=True):
            reports = runtestprotocol(item, nextitem=nextitem, log=False)
        again = any(report.failed for report in reports)
        unsteady[item.nodeid] = None if again else (failure_line(first), failure_text(first))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def pytest_terminal_summary(terminalreporter):
    for line in left_out:
        terminalreporter.write_line(line)
    for test, failure in unsteady.items():
        if failure is not None:
            terminalreporter.section(f"first try of {test}")
            terminalreporter.write_line(failure[1])
            terminalreporter.write_line(f"UNSTEADY {test}: failed once, passed when tried again: {failure[0]}")


# ---- time limits, logs of failures ----

def pytest_configure(config):
    config.addinivalue_line("markers", f"seconds(n): the test may take so long ({TEST_SECONDS} otherwise)")
    config.addinivalue_line("markers", "alone: nothing runs beside the test")
    config.addinivalue_line("markers", "long(reason): left to make check-all")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: pytest.exit(f"signal {number}", 128 + number))
    if os.geteuid() != 0:
        pytest.exit("the cluster tests make network namespaces: they need root", 1)
    if rungs.PLANE not in rungs.NOT_FOR_PLANE:
        pytest.exit(f"DPRD_PLANE={rungs.PLANE}: there are {' and '.join(rungs.NOT_FOR_PLANE)}", 1)


def limited(seconds, what):
    """A generator around one phase of a test: an alarm ends it."""
    def late(_number, _frame):
        raise Late(f"{what} took longer than {seconds} s")
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    yield from limited(FIXTURE_SECONDS, "the set-up")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    mark = item.get_closest_marker("seconds")
    yield from limited(mark.args[0] if mark else TEST_SECONDS, "the test")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield from limited(FIXTURE_SECONDS, "the clean-up")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    report.late = call.excinfo is not None and call.excinfo.errisinstance(Late)
    item.reports = getattr(item, "reports", {})
    item.reports[report.when] = report
    held = item.funcargs.get("session_clusters") if hasattr(item, "funcargs") else None
    if report.failed and held is not None:
        for cluster in held.used:
            try:
                report.sections.append((f"cluster {cluster.site.prefix}", cluster_logs(cluster)))
            except (LabError, OSError) as error:
                report.sections.append((f"cluster {cluster.site.prefix}", f"no logs: {error}"))
