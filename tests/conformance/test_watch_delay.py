"""A heavy reader does not hold back a watch on the same connection: no more than in etcd."""
from harness import KIND_ETCD, KIND_LEASED, Server
from harness.acceptance import either, report
from harness.watch_delay import measure

SECONDS = either(1.0, 20.0)
# What a busy machine adds to either.
SLACK_SECONDS = either(0.15, 0.02)


def test_events_are_no_later_than_those_of_etcd():
    middles = {}
    for kind in (KIND_ETCD, KIND_LEASED):
        with Server(kind) as server:
            delays, reads = measure(server, SECONDS)
            middles[kind] = delays[len(delays) // 2]
            report(f"watch delay of {kind}", p50_ms=round(1000 * middles[kind], 1),
                   max_ms=round(1000 * delays[-1], 1), events=len(delays), ranges=reads)  # fmt: skip
            assert reads > 0
    assert middles[KIND_LEASED] <= middles[KIND_ETCD] + SLACK_SECONDS
