# SPDX-License-Identifier: GPL-2.0-or-later
"""Servers of a fixed capacity and clients that wait; the director's rules, ratios and tables."""
import argparse
import asyncio
import json
import socket

import pytest

import closedloop
import exp_director
import virtualtime
from exp_director import DIRECT, DPRD, NARROW, WIDE, Director, arm_name

PER_SERVER = 80  # requests of 10 ms in 0.8 s
PARAMETERS = {**Director.quick, "servers": [1, 3]}


def record(rate, repetition):
    return {"key": {"repetition": repetition}, "measures": {"requests_per_second": rate, "mean_ms": 1000 / rate}}


def test_a_request_says_its_work_and_the_size_of_its_answer():
    server = closedloop.SizedServer("n2", 1)
    assert server.work(b"12.5 100\n") == (0.0125, b"n2\n" + b"." * 97)
    assert server.work(b"-3 2\n") == (0.0, b"n2\n")
    assert len(server.work(b"1 99999999999\n")[1]) == closedloop.ANSWER_MOST_BYTES
    for line in (b"", b"12\n", b"a b\n", b"1 2 3\n"):
        with pytest.raises(ValueError):
            server.work(line)


def test_an_answer_counts_only_when_it_is_whole():
    assert closedloop.judge_answer(b"n2\n....", 7) == ("n2", None)
    assert closedloop.judge_answer(b"n2\n....", 8) == (None, "short")
    assert closedloop.judge_answer(b"", 8) == (None, "closed")


def test_only_what_ended_in_the_measured_time_counts():
    results = [(0.9, 0.1, "a", None), (1.0, 0.2, "a", None), (1.5, 0.3, "b", None), (1.6, 9.0, None, "timeout"),
               (2.0, 0.4, "b", None)]
    assert closedloop.summary(results, 1.0, 2.0, 0.005) == {
        "response_s": [0.2, 0.3], "nodes": {"a": 1, "b": 1}, "errors": {"timeout": 1}, "lag_max_ms": 5.0}


def options_of_load(path, **options):
    arguments = argparse.Namespace(seed=1, clients=12, seconds=0.8, warmup=0.3, service_ms=10.0, bytes=5000,
                                   patience=5.0, servers=["127.0.0.10"], port=8090, json=str(path))
    vars(arguments).update(options)
    return arguments


@pytest.fixture(name="load")
def load_in_virtual_time(monkeypatch, tmp_path):
    """load(names, **options): servers with these names at 127.0.0.10 and the next addresses, and a load on them,
    with the leaping clock; returns the output of the load."""
    network = virtualtime.Network()
    monkeypatch.setattr(asyncio, "open_connection", network.open_connection)

    def load(names, **options):
        addresses = [f"127.0.0.{10 + i}" for i in range(len(names))]
        arguments = options_of_load(tmp_path / "load.json", **{"servers": addresses, **options})
        for name, address in zip(names, addresses):
            network.serve(address, arguments.port, closedloop.SizedServer(name, 1).serve)
        virtualtime.run(closedloop.load(arguments))
        return json.loads((tmp_path / "load.json").read_text())

    return load


def test_throughput_is_the_servers_capacity_and_even(load):
    found = load(["a", "b"])
    assert not found["errors"]
    assert set(found["nodes"]) == {"a", "b"}
    assert all(abs(count - PER_SERVER) <= 1 for count in found["nodes"].values())
    assert found["response_s"] == pytest.approx([6 * 0.010] * len(found["response_s"]), rel=0.001)
    assert found["lag_max_ms"] < 0.001


def test_more_clients_do_not_make_a_server_faster(load):
    found = load(["a"], clients=30, warmup=1.0)
    assert abs(found["nodes"]["a"] - PER_SERVER) <= 1
    assert found["response_s"] == pytest.approx([30 * 0.010] * len(found["response_s"]), rel=0.001)


def test_refused_and_late_connections_are_errors(load):
    found = load(["a"], servers=["127.0.0.77"], clients=2)
    assert set(found["errors"]) == {"ConnectionRefusedError"} and not found["response_s"]
    assert abs(found["errors"]["ConnectionRefusedError"] - 2 * PER_SERVER) <= 2
    found = load(["a"], patience=0.02)
    assert set(found["errors"]) == {"timeout"} and found["errors"]["timeout"] > PER_SERVER


async def serve_and_load(names, arguments):
    """The same over sockets, by the host's clock: servers on loopback addresses of their own."""
    servers = []
    for name, address in zip(names, arguments.servers):
        servers.append(await asyncio.start_server(closedloop.SizedServer(name, 1).serve, address, arguments.port))
        arguments.port = servers[0].sockets[0].getsockname()[1]
    await closedloop.load(arguments)
    for server in servers:
        server.close()


def test_over_sockets_answers_are_whole_and_no_sooner_than_the_servers_can(tmp_path):
    """The warm-up lasts until every client has been answered: a host may take its time for that."""
    path, warmup_s = tmp_path / "load.json", 0.3
    while warmup_s < 60:
        asyncio.run(serve_and_load(["a", "b"], options_of_load(path, servers=["127.0.0.10", "127.0.0.11"], port=0,
                                                               seconds=0.8, warmup=warmup_s, patience=60.0)))
        found = json.loads(path.read_text())
        assert not found["errors"]
        if set(found["nodes"]) == {"a", "b"}:
            break
        warmup_s *= 4
    assert set(found["nodes"]) == {"a", "b"}
    assert all(count <= PER_SERVER + 6 + 1 for count in found["nodes"].values())
    assert min(found["response_s"]) >= 0.009


def test_over_sockets_a_closed_port_refuses(tmp_path):
    with socket.socket() as nobody_listens:
        nobody_listens.bind(("127.0.0.10", 0))
        port, seconds, found = nobody_listens.getsockname()[1], 0.3, {}
        while seconds < 60 and not found.get("errors"):
            asyncio.run(closedloop.load(options_of_load(tmp_path / "load.json", port=port, seconds=seconds, warmup=0)))
            found, seconds = json.loads((tmp_path / "load.json").read_text()), 4 * seconds
    assert set(found["errors"]) == {"ConnectionRefusedError"} and not found["response_s"]


def test_options_of_the_load():
    words = ["load", "--seed", "3", "--clients", "64", "--seconds", "1.5", "--warmup", "0", "--service-ms", "10",
             "--bytes", "9300", "--servers", "192.0.2.11,192.0.2.12", "--port", "8090", "--json", "f"]
    found = closedloop.parse_load(words)
    assert found.servers == ["192.0.2.11", "192.0.2.12"]
    assert (found.clients, found.seconds, found.service_ms, found.bytes) == (64, 1.5, 10.0, 9300)


def test_the_director_takes_all_servers_in_turn():
    rules = exp_director.director_rules(["10.80.0.11", "10.80.0.12", "10.80.0.13"])
    assert "ip daddr 192.0.2.9 tcp dport 8090 dnat to numgen inc mod 3 map " \
        "{ 0 : 10.80.0.11, 1 : 10.80.0.12, 2 : 10.80.0.13 }" in rules
    assert rules.index("flush table ip director") < rules.index("chain prerouting")


def test_bytes_sent_by_interface():
    text = ("Inter-|   Receive                            |  Transmit\n"
            " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs\n"
            "    lo:       1       2    0    0    0     0          0         0       17       2    0\n"
            "nat-in:99887766       2    0    0    0     0          0         0 11223344       2    0\n")
    assert exp_director.parse_sent(text) == {"lo": 17, "nat-in": 11223344}


def test_arms_are_every_way_and_number_but_one_wide_wire():
    names = [arm.name for arm in Director().arms(PARAMETERS)]
    assert names == ["direct, 1", "direct, 3", "dprd, 1", "dprd, 3", f"{WIDE}, 3", f"{NARROW}, 1", f"{NARROW}, 3"]


def test_measures_of_a_run():
    found = exp_director.measures_of({"response_s": [0.1, 0.3, 0.2, 0.2], "nodes": {"n1": 3, "n2": 1},
                                      "errors": {"timeout": 2}, "lag_max_ms": 1.0}, 4, 2,
                                     {"forwarded_share": 0.5, "host": {"idle_percent": 9}})
    assert found["requests_per_second"] == 2 and found["mean_ms"] == pytest.approx(200)
    assert found["busiest_share"] == 3 and found["errors"] == 2
    assert found["forwarded_share"] == 0.5 and found["idle_percent"] == 9 and "host" not in found
    empty = exp_director.measures_of({"response_s": [], "nodes": {}, "errors": {"timeout": 2}, "lag_max_ms": 1.0}, 4,
                                     2, {"host": {}})
    assert empty["mean_ms"] is None and empty["busiest_share"] is None and empty["requests_per_second"] == 0


def test_ways_are_compared_at_the_same_number_and_repetition():
    runs = {arm_name(DIRECT, 3): [record(300, 1), record(100, 2)], arm_name(DIRECT, 1): [record(50, 1)],
            arm_name(DPRD, 3): [record(270, 1), record(100, 2)], arm_name(NARROW, 3): [record(50, 2)]}
    found = Director().findings(PARAMETERS, runs)
    assert found == {"dprd_over_direct_with_3_servers": "0.95 [0.90 - 1.00]",
                     "nft_dnat_over_direct_with_3_servers": "0.50 [0.50 - 0.50]"}


def test_figures_have_the_servers_on_their_axis():
    runs = {arm_name(way, count): [record(100 * count, 1), record(90 * count, 2)]
            for way in (DIRECT, DPRD, NARROW) for count in (1, 3)}
    rate, delay = Director().plots(PARAMETERS, runs)
    assert (rate.x_label, rate.y_label, delay.y_label) == ("servers", "connections per second", "mean delay (ms)")
    lines = {line.label: line.points for line in rate.lines}
    assert lines[DIRECT] == lines[DPRD] == ((1, 95, 90, 100), (3, 285, 270, 300)) and lines[WIDE] == ()


def test_every_table_and_figure_names_the_stand_in():
    experiment = Director()
    assert "Closed loop" in experiment.caption(PARAMETERS) and "N = 16 clients" in experiment.caption(PARAMETERS)
    assert "stand-in for IPVS" in experiment.title
    assert all("for IPVS" in way for way in (WIDE, NARROW))
    assert all("stand-in for IPVS" in table.note for table in experiment.tables(PARAMETERS))
    assert all("stand-in for IPVS" in plot.note for plot in experiment.plots(PARAMETERS, {}))
