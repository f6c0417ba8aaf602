"""What is measured: the words for `lease bench`, of which servers, how often."""
import dataclasses

LEASED = "leased"
ETCD_35 = "etcd 3.5"
ETCD_34 = "etcd 3.4"
REDIS = "redis"
ZOOKEEPER = "zookeeper"

LOCKS = "locks"
LOCKS_AWAITED = "locks-awaited"
LOCKS_UNSYNCED = "locks-unsynced"

BOTH = (LEASED, ETCD_35)
ALL = (LEASED, ETCD_35, ETCD_34)
QUICK_TIMERS = ("--heartbeat-interval", "50", "--election-timeout", "300")


@dataclasses.dataclass(frozen=True)
class Measure:
    name: str
    words: tuple = ()
    servers: tuple = BOTH
    rounds: int = 3
    nodes: int = 1
    flags: tuple = ()
    timed: bool = True  # takes --duration and --warm-up


@dataclasses.dataclass(frozen=True)
class Size:
    """How much of it: a full run, or a quick one."""

    rounds: int
    seconds: float
    lease_counts: tuple
    etcd_leases_max: int  # granting more takes etcd minutes
    connection_counts: tuple
    key_counts: tuple
    memory_leases: int
    mass_leases: int
    mass_ttl: int
    shared_mass_leases: int
    shared_mass_ttl: int
    kills: int
    minutes_max: float  # then nothing new is begun


FULL = Size(rounds=3, seconds=3, lease_counts=(1_000, 10_000, 100_000, 1_000_000),
            etcd_leases_max=100_000, connection_counts=(1, 10, 100, 1000),
            key_counts=(1, 10, 100), memory_leases=100_000, mass_leases=1_000_000, mass_ttl=90,
            shared_mass_leases=10_000, shared_mass_ttl=10, kills=8, minutes_max=50)  # fmt: skip
QUICK = Size(rounds=1, seconds=1, lease_counts=(1_000, 10_000, 100_000), etcd_leases_max=10_000,
             connection_counts=(1, 100), key_counts=(1, 10), memory_leases=20_000,
             mass_leases=100_000, mass_ttl=20, shared_mass_leases=1_000, shared_mass_ttl=5,
             kills=2, minutes_max=8)  # fmt: skip


def _single(size):
    yield Measure("grant", ("grant", "--clients", "100"), ALL, size.rounds)
    yield Measure("put", ("put", "--clients", "100"), ALL, size.rounds)
    yield Measure("put-1000", ("put", "--clients", "1000"), BOTH, size.rounds)
    yield Measure("range", ("range", "--clients", "100"), ALL, size.rounds)
    yield Measure("range-serializable", ("range", "--clients", "100", "--serializable"), BOTH,
                  size.rounds)  # fmt: skip
    yield Measure("txn", ("txn", "--clients", "100"), BOTH, size.rounds)
    yield Measure("watch", ("watch", "--streams", "1000", "--clients", "4"), BOTH, size.rounds)
    yield Measure("lock", ("lock", "--clients", "10"), BOTH, size.rounds)
    yield Measure("mixed", ("mixed", "--clients", "1000"), BOTH, size.rounds)
    one = ("--clients", "1", "--connections", "1")
    yield Measure("grant-one", ("grant", *one), BOTH, size.rounds)
    yield Measure("put-one", ("put", *one), BOTH, size.rounds)
    yield Measure("put-rate", ("put", "--clients", "1000", "--rate", "2000"), BOTH, size.rounds)


def _growth(size):
    for count in size.lease_counts:
        servers = BOTH if count <= size.etcd_leases_max else (LEASED,)
        servers = ALL if count == 10_000 else servers
        rounds = 1 if count >= 1_000_000 else size.rounds
        yield Measure(f"keepalive-{count}", ("keepalive", "--leases", str(count), "--ttl", "3600"),
                      servers, rounds)  # fmt: skip
    for count in size.connection_counts:
        yield Measure(f"put-connections-{count}",
                      ("put", "--clients", "1000", "--connections", str(count)),
                      BOTH, min(2, size.rounds))  # fmt: skip
    for count in size.key_counts:
        yield Measure(f"keepalive-keys-{count}",
                      ("keepalive", "--leases", "1000", "--keys-per-lease", str(count)),
                      BOTH, 1)  # fmt: skip


def _ends(size):
    yield Measure("memory", ("memory", "--leases", str(size.memory_leases), "--settle",
                             f"{size.seconds + 1:.0f}s"), BOTH, size.rounds, timed=False)  # fmt: skip
    yield Measure("lateness", ("lateness", "--leases", "20" if size.rounds > 1 else "5", "--ttl",
                               "3", "--stagger", "230ms"),
                  BOTH, size.rounds, timed=False)  # fmt: skip
    yield Measure("expire", ("expire", "--leases", str(size.shared_mass_leases), "--ttl",
                             str(size.shared_mass_ttl)), BOTH, size.rounds, timed=False)  # fmt: skip
    yield Measure("expire-mass", ("expire", "--leases", str(size.mass_leases), "--ttl",
                                  str(size.mass_ttl)), (LEASED,), 1, timed=False)  # fmt: skip
    yield Measure("idle", (), BOTH, 1, timed=False)


def _clusters(size):
    spread = ("--connections", "6")
    yield Measure("three-grant", ("grant", "--clients", "100", *spread), BOTH, size.rounds, 3)
    yield Measure("three-put", ("put", "--clients", "100", *spread), BOTH, size.rounds, 3)
    yield Measure("three-keepalive", ("keepalive", "--leases", "10000", *spread), BOTH,
                  size.rounds, 3)  # fmt: skip
    words = ("failover", "--duration", "200ms", "--warm-up", "500ms")
    yield Measure("failover", words, BOTH, size.kills, 3, timed=False)
    yield Measure("failover-quick", words, BOTH, size.kills, 3, QUICK_TIMERS, timed=False)


def _locks(size):
    """Python's libraries: the synced Redis keeps what it acknowledged, as the other two do."""
    yield Measure(LOCKS, (), (LEASED, REDIS, ZOOKEEPER), size.rounds)
    yield Measure(LOCKS_AWAITED, (), (LEASED,), size.rounds)
    yield Measure(LOCKS_UNSYNCED, (), (REDIS,), size.rounds)


def _others(size):
    yield Measure("redis", (), (REDIS,), size.rounds)
    yield Measure("zookeeper", (), (ZOOKEEPER,), size.rounds)


def _doors(size):
    """leased's doors beside the servers whose protocols they speak, driven by one program."""
    yield Measure("door-redis-50", ("redis-lock", "--clients", "50"), (LEASED, REDIS), size.rounds)
    yield Measure("door-zookeeper-100", ("zk-create", "--clients", "100", "--connections", "100"),
                  (LEASED, ZOOKEEPER), size.rounds)  # fmt: skip
    yield Measure("door-zookeeper-1000", ("zk-create", "--clients", "1000", "--connections", "20"),
                  (LEASED, ZOOKEEPER), size.rounds)  # fmt: skip


def measures(size):
    """In the order of a run: what must be shown first, the long ones last."""
    every = [*_single(size), *_growth(size), *_clusters(size), *_locks(size), *_others(size), *_doors(size), *_ends(size)]
    if size is QUICK:
        # The older etcd proves nothing; a short look can do without.
        every = [dataclasses.replace(one, servers=tuple(name for name in one.servers if name != ETCD_34))
                 for one in every]  # fmt: skip
    return every
