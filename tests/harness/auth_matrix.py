"""Every request of the etcd API and of the HTTP routes, and callers who make it: the matrix of rights.

The requests are those that the program itself names (leased --list-requests). One that is not known here
fails the test: whoever adds a request says here how it is made.
"""
import ssl
import subprocess

import grpc
from etcd3 import etcdrpc

from harness import auth, gateway
from harness.auth import DENIED, OK, UNKNOWN_CALLER
from harness.kinds import KIND_LEASED, binary_of
from harness.lock_messages import LeaderKey, encoded
from harness.rpc import CALL_SECONDS, Rpc
from harness.tls_server import credentials_of


WORK, WORK_END = b"/job/", b"/job0"
KEY = b"/job/key"
LEASE, LEASE_OF_OTHERS = 77, 78
# Nobody is to be elected while a busy machine keeps the leader waiting.
CALM = ("--heartbeat-interval", "300", "--election-timeout", "3000")
PASSWORDS = {"root": "root's", "worker": "worker's", "guest": "guest's"}


def unary(payload=b"", may_fail=()):
    return ("unary", payload, may_fail)


def message(kind, **fields):
    return getattr(etcdrpc, kind)(**fields).SerializeToString()


def watch_message():
    return etcdrpc.WatchRequest(
        create_request=etcdrpc.WatchCreateRequest(key=KEY)
    ).SerializeToString()


def txn_message():
    put = etcdrpc.RequestOp(request_put=etcdrpc.PutRequest(key=KEY, value=b"t"))
    return message("TxnRequest", success=[put])


# How each request is made, and what it may say to one who has the right to make it.
REQUESTS = {
    "GET /health": ("http", "/health", ()),
    "GET /livez": ("http", "/livez", ()),
    "GET /readyz": ("http", "/readyz", ()),
    "GET /version": ("http", "/version", ()),
    "GET /livez/{check}": ("http", "/livez/serializable_read", ()),
    "GET /readyz/{check}": ("http", "/readyz/data_corruption", ()),
    "GET /debug/vars": ("http", "/debug/vars", ()),
    "GET /metrics": ("http", "/metrics", ()),
    "/etcdserverpb.KV/Range": unary(message("RangeRequest", key=KEY)),
    "/etcdserverpb.KV/Put": unary(message("PutRequest", key=KEY, value=b"v")),
    "/etcdserverpb.KV/DeleteRange": unary(message("DeleteRangeRequest", key=WORK + b"x")),
    "/etcdserverpb.KV/Txn": unary(txn_message()),
    "/etcdserverpb.KV/Compact": unary(message("CompactionRequest", revision=1), ["has been compacted"]),
    "/etcdserverpb.Watch/Watch": ("watch", watch_message(), ()),
    "/etcdserverpb.Lease/LeaseGrant": unary(message("LeaseGrantRequest", TTL=600)),
    "/etcdserverpb.Lease/LeaseRevoke": unary(message("LeaseRevokeRequest", ID=LEASE)),
    "/etcdserverpb.Lease/LeaseKeepAlive": ("stream", message("LeaseKeepAliveRequest", ID=LEASE), ()),
    "/etcdserverpb.Lease/LeaseTimeToLive": unary(message("LeaseTimeToLiveRequest", ID=LEASE, keys=True)),
    "/etcdserverpb.Lease/LeaseLeases": unary(),
    "/etcdserverpb.Cluster/MemberList": unary(),
    "/etcdserverpb.Cluster/MemberAdd": unary(
        message("MemberAddRequest", peerURLs=["http://127.0.0.1:1"]) + b"\x10\x01", ["unhealthy", "already exists"]
    ),
    "/etcdserverpb.Cluster/MemberRemove": unary(message("MemberRemoveRequest", ID=1), ["member not found"]),
    "/etcdserverpb.Cluster/MemberUpdate": unary(
        message("MemberUpdateRequest", ID=1, peerURLs=["http://127.0.0.1:1"]), ["member not found"]
    ),
    "/etcdserverpb.Cluster/MemberPromote": unary(b"\x08\x01", ["member not found"]),
    "/etcdserverpb.Maintenance/Alarm": unary(),
    "/etcdserverpb.Maintenance/Status": unary(),
    "/etcdserverpb.Maintenance/Defragment": unary(),
    "/etcdserverpb.Maintenance/Hash": unary(),
    "/etcdserverpb.Maintenance/HashKV": unary(),
    "/etcdserverpb.Maintenance/Snapshot": ("stream", b"", ()),
    "/etcdserverpb.Maintenance/MoveLeader": unary(
        message("MoveLeaderRequest", targetID=1), ["bad leader transferee", "not leader"]
    ),
    "/etcdserverpb.Maintenance/Downgrade": unary(b"", ["wrong downgrade target version format"]),
    "/etcdserverpb.Auth/AuthEnable": unary(),
    # Really done by test_root_switches_it_off: here it would end the matrix.
    "/etcdserverpb.Auth/AuthDisable": ("refused only", b"", ()),
    "/etcdserverpb.Auth/AuthStatus": unary(),
    "/etcdserverpb.Auth/Authenticate": unary(
        message("AuthenticateRequest", name="worker", password=PASSWORDS["worker"])
    ),
    "/etcdserverpb.Auth/UserAdd": unary(
        message("AuthUserAddRequest", name="new", password="new's"), ["already exists"]
    ),
    "/etcdserverpb.Auth/UserGet": unary(message("AuthUserGetRequest", name="root")),
    "/etcdserverpb.Auth/UserList": unary(),
    "/etcdserverpb.Auth/UserDelete": unary(message("AuthUserDeleteRequest", name="nobody"), ["not found"]),
    "/etcdserverpb.Auth/UserChangePassword": unary(
        message("AuthUserChangePasswordRequest", name="nobody", password="x"), ["not found"]
    ),
    "/etcdserverpb.Auth/UserGrantRole": unary(
        message("AuthUserGrantRoleRequest", user="worker", role="worker")
    ),
    "/etcdserverpb.Auth/UserRevokeRole": unary(
        message("AuthUserRevokeRoleRequest", name="worker", role="nothing"), ["not granted"]
    ),
    "/etcdserverpb.Auth/RoleAdd": unary(message("AuthRoleAddRequest", name="new"), ["already exists"]),
    "/etcdserverpb.Auth/RoleGet": unary(message("AuthRoleGetRequest", role="worker")),
    "/etcdserverpb.Auth/RoleList": unary(),
    "/etcdserverpb.Auth/RoleDelete": unary(message("AuthRoleDeleteRequest", role="nothing"), ["not found"]),
    "/etcdserverpb.Auth/RoleGrantPermission": unary(
        message("AuthRoleGrantPermissionRequest", name="new", perm=auth.permission(b"/new/")), ["not found"]
    ),
    "/etcdserverpb.Auth/RoleRevokePermission": unary(
        message("AuthRoleRevokePermissionRequest", role="worker", key="/nothing"), ["not granted"]
    ),
    "/v3lockpb.Lock/Lock": unary(encoded("LockRequest", name=WORK + b"lock", lease=LEASE)),
    "/v3lockpb.Lock/Unlock": unary(encoded("UnlockRequest", key=KEY)),
    "/v3electionpb.Election/Campaign": unary(encoded("CampaignRequest", name=WORK + b"election", lease=LEASE)),
    "/v3electionpb.Election/Proclaim": unary(encoded("ProclaimRequest", leader=LeaderKey(key=KEY)), ["not leader"]),
    # The name without its slash: all keys below it are candidates.
    "/v3electionpb.Election/Leader": unary(encoded("LeaderRequest", name=WORK[:-1])),
    "/v3electionpb.Election/Observe": ("stream", encoded("LeaderRequest", name=WORK[:-1]), ()),
    "/v3electionpb.Election/Resign": unary(encoded("ResignRequest", leader=LeaderKey(key=KEY))),
    "/grpc.health.v1.Health/Check": unary(),
    "/grpc.health.v1.Health/Watch": ("stream", b"", ()),
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo": ("stream", b"\x3a\x00", ()),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": ("stream", b"\x3a\x00", ()),
}

# The same methods as JSON. The leader is asked under one prefix, the other member under the other.
GATEWAY = {f"POST /v3{path}": gateway.grpc_path(method) for path, method in gateway.ROUTES.items()}


def gateway_recipe(method):
    kind, payload, may_fail = REQUESTS[method]
    body = gateway.body_of(method.split(".", 1)[1], payload)
    return ("refused gateway only" if kind == "refused only" else "gateway", body, may_fail)


REQUESTS.update({name: gateway_recipe(method) for name, method in GATEWAY.items()})

# The same method, with something in it that needs more than the method as such.
MORE = {
    "write through a key of another": (
        "write", "/etcdserverpb.KV/Put", unary(message("PutRequest", key=KEY, lease=LEASE)),
    ),
    "read by way of a put": (
        "read_write", "/etcdserverpb.KV/Put", unary(message("PutRequest", key=KEY, prev_kv=True)),
    ),
    "serializable read": (
        "read", "/etcdserverpb.KV/Range", unary(message("RangeRequest", key=KEY, serializable=True)),
    ),
    "read of all keys": (
        "root", "/etcdserverpb.KV/Range", unary(message("RangeRequest", key=b"\0", range_end=b"\0")),
    ),
    "delete of all keys but none": (
        "root", "/etcdserverpb.KV/DeleteRange",
        unary(message("DeleteRangeRequest", key=b"\xff\xff", range_end=b"\0")),
    ),
    "lock with a lease of the server": (  # a second one would wait for the first
        "read_write", "/v3lockpb.Lock/Lock", ("refused only", encoded("LockRequest", name=WORK + b"free"), ()),
    ),
    "alarm": (
        "root", "/etcdserverpb.Maintenance/Alarm",
        unary(message("AlarmRequest", action=2, memberID=1, alarm=1)),
    ),
    "somebody else": (
        "root", "/etcdserverpb.Auth/UserGet", unary(message("AuthUserGetRequest", name="nobody"), ["not found"]),
    ),
}  # fmt: skip


# Doors whose requests have a matrix of their own, test_auth_matrix_<door>.py.
DOORS_APART = ("consul", "dns", "eureka", "native", "redis", "registry", "xds", "zookeeper")


def listed_requests(door=None):
    """{name: right}, as the program says: of one door, or of all that have no matrix of their own."""
    output = subprocess.run(
        [binary_of(KIND_LEASED), "--list-requests"], capture_output=True, text=True, check=True, timeout=20
    ).stdout
    rows = [line.split("\t") for line in output.splitlines()]
    return {name: right for of, name, right in rows if (of == door if door else of not in DOORS_APART)}


LISTED = listed_requests()


class Matrix:
    """A cluster with users, and a client of each of two members: the leader and another one. Callers show tokens
    and passwords; TlsMatrix has those who show certificates."""

    def __init__(self, cluster, secret=None):
        self.cluster = cluster
        self.secret = secret
        leader = cluster.leader()
        self.servers = [cluster[leader], cluster[next(i for i in range(3) if i != leader)]]
        self.rpcs = [Rpc(server) for server in self.servers]
        rpc = self.rpcs[0]
        auth.add_user(rpc, "worker", PASSWORDS["worker"], [auth.permission(WORK, WORK_END)])
        auth.add_user(rpc, "guest", PASSWORDS["guest"], [auth.permission(b"/guest/", b"/guest0")])
        root = auth.enable(rpc, PASSWORDS["root"])
        # A token of one member is good on the other.
        self.tokens = {name: auth.log_in(self.rpcs[1], name, PASSWORDS[name]) for name in PASSWORDS}
        self.tokens["root"] = root
        self.prepare()

    def close(self):
        for rpc in self.rpcs:
            rpc.close()

    # How somebody shows who he is

    def token_of(self, identity):
        return self.wrong_token() if identity == "wrong" else self.tokens.get(identity)

    def password_of(self, identity):
        """For HTTP pages: (name, password); None: none is shown."""
        return {None: None, "wrong": ("worker", "wrong")}.get(identity, (identity, PASSWORDS.get(identity)))

    def channel_of(self, at, _identity):
        return self.rpcs[at].channel

    def context_of(self, _identity):
        """Of a TLS connection; None: plain text."""
        return None

    # Requests

    def call(self, at, method, payload, token=None):
        metadata = [("token", token)] if token else None
        return self.rpcs[at].channel.unary_unary(method)(payload, metadata=metadata, timeout=CALL_SECONDS)

    def prepare(self):
        """What the requests are about is there, whatever the last one did."""
        root = self.tokens["root"]
        for lease, key in ((LEASE, KEY), (LEASE_OF_OTHERS, b"/other/key")):
            grant = message("LeaseGrantRequest", TTL=600, ID=lease)
            outcome = auth.outcome_of(lambda: self.call(0, "/etcdserverpb.Lease/LeaseGrant", grant, root))
            assert outcome in (OK, "etcdserver: lease already exists")
            self.call(0, "/etcdserverpb.KV/Put", message("PutRequest", key=key, lease=lease), root)

    def state(self):
        """Everything that a request could change, as root sees it, but for the revision."""
        root = self.tokens["root"]

        def ask(method, payload=b"", kind=None):
            answer = self.call(0, f"/etcdserverpb.{method}", payload, root)
            parsed = getattr(etcdrpc, kind).FromString(answer)
            parsed.ClearField("header")
            return parsed

        return [
            ask("KV/Range", message("RangeRequest", key=b"\0", range_end=b"\0"), "RangeResponse"),
            ask("Lease/LeaseLeases", b"", "LeaseLeasesResponse"),
            ask("Cluster/MemberList", b"", "MemberListResponse"),
            ask("Auth/UserList", b"", "AuthUserListResponse"),
            ask("Auth/RoleList", b"", "AuthRoleListResponse"),
            ask("Auth/UserGet", message("AuthUserGetRequest", name="worker"), "AuthUserGetResponse"),
            ask("Auth/RoleGet", message("AuthRoleGetRequest", role="worker"), "AuthRoleGetResponse"),
            ask("Maintenance/Alarm", b"", "AlarmResponse"),
        ]

    def outcome(self, at, method, recipe, identity):
        kind, payload, _may_fail = recipe
        if kind == "http":
            return self.http_outcome(at, payload, identity)
        if "gateway" in kind:
            return self.gateway_outcome(at, method.removeprefix("POST /v3"), payload, identity)
        token, channel = self.token_of(identity), self.channel_of(at, identity)
        how = {"metadata": [("token", token)] if token else None, "timeout": CALL_SECONDS}
        if kind in ("unary", "refused only"):
            return auth.outcome_of(lambda: channel.unary_unary(method)(payload, **how))
        stream = channel.stream_stream(method)(iter([payload]), **how)
        try:
            answer = next(iter(stream))
        except grpc.RpcError as error:
            return auth.outcome_of_text(error.details())
        finally:
            stream.cancel()
        if kind == "watch":
            parsed = etcdrpc.WatchResponse.FromString(answer)
            return auth.outcome_of_text(parsed.cancel_reason) if parsed.canceled else OK
        return OK

    def wrong_token(self):
        """Of nobody, but nearly root's."""
        token = self.tokens["root"]
        return token[:-1] + ("A" if token[-1] != "A" else "B")

    def gateway_outcome(self, at, path, body, identity):
        token = self.token_of(identity)
        headers = {"Authorization": token} if token else {}
        status, answer = gateway.post(
            self.servers[at], gateway.PREFIXES[at] + path, body, headers, context=self.context_of(identity)
        )
        result = answer.get("result", {})
        text = gateway.error_text(answer) or result.get("cancel_reason", "")
        outcome = auth.outcome_of_text(text) if text else OK
        # The status says the same as the text, but for a watch, which is refused by its answer.
        if not result:
            assert (outcome == OK) == (status == 200)
        return outcome

    def http_outcome(self, at, path, identity):
        user, context = self.password_of(identity), self.context_of(identity)
        status, _body = auth.get(self.servers[at], path, user, context=context)
        return {200: OK, 401: UNKNOWN_CALLER, 403: DENIED}.get(status, str(status))


class TlsMatrix(Matrix):
    """Every client shows a certificate, whose common name is the user. Without an identity is one whose certificate
    names no user; a wrong one is a wrong token or password beside the worker's certificate."""

    def __init__(self, cluster, certificates, trusted):
        """certificates: {name: (certificate, key)} of root, worker, guest and nobody."""
        self.contexts = {name: ssl.create_default_context(cafile=trusted) for name in certificates}
        for name, pair in certificates.items():
            self.contexts[name].load_cert_chain(*pair)
        self.channels = {}
        super().__init__(cluster)  # the servers' own clients show root's certificate
        for name, pair in certificates.items():
            for at, server in enumerate(self.servers):
                credentials = credentials_of(trusted, pair)
                self.channels[at, name] = grpc.secure_channel(server.endpoint, credentials)

    def close(self):
        super().close()
        for channel in self.channels.values():
            channel.close()

    def token_of(self, identity):
        return self.wrong_token() if identity == "wrong" else None

    def password_of(self, identity):
        return ("worker", "wrong") if identity == "wrong" else None

    def channel_of(self, at, identity):
        return self.channels[at, self.shown_by(identity)]

    def context_of(self, identity):
        return self.contexts[self.shown_by(identity)]

    @staticmethod
    def shown_by(identity):
        return {None: "nobody", "wrong": "worker"}.get(identity, identity)


def expected(right, identity):
    """Of one who must be refused; None: of one who must not be."""
    if right == "none" or identity in ("root", "worker") or (right == "user" and identity == "guest"):
        return None
    return DENIED if identity == "guest" else UNKNOWN_CALLER


def check(matrix, name, method, recipe, right):
    matrix.prepare()
    before = matrix.state()
    refused_identities = [who for who in (None, "wrong", "guest") if expected(right, who) is not None]
    for at in (0, 1):
        for identity in refused_identities:
            outcome = matrix.outcome(at, method, recipe, identity)
            assert outcome == expected(right, identity), f"{name} by {identity} at member {at}"
    assert matrix.state() == before, f"{name} was refused, and yet something changed"
    if recipe[0] in ("refused only", "refused gateway only"):
        return
    for at in (0, 1):
        for identity in (None, "wrong", "guest", "root" if right == "root" else "worker"):
            if identity in refused_identities:
                continue
            matrix.prepare()
            outcome = matrix.outcome(at, method, recipe, identity)
            allowed = outcome == OK or any(text in outcome for text in recipe[2])
            assert allowed, f"{name} by {identity} at member {at}: {outcome}"
