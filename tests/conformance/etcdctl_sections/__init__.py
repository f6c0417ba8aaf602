"""The parts of one long etcdctl session, in the order they run.

A section is a function of a harness.etcdctl.Session. It says what a user types;
what comes back is judged by comparing two servers, never here. Each section uses
keys of its own. To add one: write the function, name it in SECTIONS.
"""
from etcdctl_sections import elections, keys, leases, maintenance, ranges, transactions, users, watches

SECTIONS = [
    keys.putting,
    keys.putting_with_leases,
    keys.deleting,
    ranges.selecting,
    ranges.sorting,
    ranges.history,
    ranges.formats,
    transactions.comparing,
    transactions.operations,
    transactions.refusals,
    transactions.interactive,
    leases.granting,
    leases.looking_at,
    leases.keeping_alive,
    leases.revoking,
    leases.expiring,
    watches.watching_live,
    watches.watching_history,
    watches.watching_several,
    watches.watching_compacted,
    maintenance.compacting,
    maintenance.endpoints,
    maintenance.members_and_alarms,
    maintenance.snapshots,
    maintenance.mirroring,
    maintenance.without_auth,
    elections.locking,
    elections.electing,
    users.managing,
    users.enabling,
]
