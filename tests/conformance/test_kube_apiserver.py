"""A kube-apiserver on leased, with certificates on both sides and authentication on.

KUBE_APISERVER names its binary; without it nothing is run (`tools/accept kube-apiserver`). The user is the name in
the server's certificate and has the two permissions that docs/doors/etcd.md names.
"""
import http.client
import json
import os
import ssl
import subprocess
import time

import pytest

from harness.acceptance import report
from harness.certificates import Authority
from harness.etcdctl import etcdctl_path
from harness.kinds import KIND_LEASED, clean_environment
from harness.ports import free_ports
from harness.process import Process
from harness.tls_server import TlsServer, server_files
from harness.wait import wait_for

BINARY = os.environ.get("KUBE_APISERVER")
START_SECONDS = 300.0  # a machine with much else to do
SECONDS = 60.0
TOKEN = "a-token-of-an-administrator"
CONFIG_MAPS, PAGE = 60, 25
EVENTS = 20

pytestmark = pytest.mark.skipif(not BINARY, reason="KUBE_APISERVER does not name a kube-apiserver")


class ApiServer:
    """One process, and requests to it by an administrator."""

    def __init__(self, folder, server, trusted, pair):
        self.port = free_ports(1)[0]
        tokens, key = os.path.join(folder, "tokens.csv"), os.path.join(folder, "service.key")
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(f'{TOKEN},admin,admin,"system:masters"\n')
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True)
        self.context = ssl._create_unverified_context()  # pylint: disable=protected-access
        self.process = Process(
            [
                BINARY, "--etcd-servers", server.client_url, "--etcd-cafile", trusted,
                "--etcd-certfile", pair[0], "--etcd-keyfile", pair[1], "--etcd-compaction-interval", "5s",
                "--bind-address", "127.0.0.1", "--advertise-address", "127.0.0.1", "--secure-port", str(self.port),
                "--cert-dir", os.path.join(folder, "apiserver"), "--token-auth-file", tokens,
                "--authorization-mode", "RBAC", "--service-cluster-ip-range", "10.0.0.0/24",
                "--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", key,
                "--service-account-signing-key-file", key, "--event-ttl", "30s",
                "--endpoint-reconciler-type", "lease",
            ],
            os.path.join(folder, "apiserver.log"),
            env=clean_environment(),
        )  # fmt: skip

    def open(self, method, path, body=None, kind="application/json", timeout=SECONDS):
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.context)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": kind}
        connection.request(method, path, body=json.dumps(body) if body is not None else None, headers=headers)
        return connection.getresponse()

    def ask(self, method, path, body=None, **how):
        """(status, answer)"""
        answer = self.open(method, path, body, **how)
        return answer.status, json.loads(answer.read())

    def is_ready(self):
        assert self.process.is_running(), f"kube-apiserver ended, see {self.process.log_path}"
        try:
            return self.open("GET", "/readyz", timeout=5).status == 200
        except OSError:
            return False


def etcdctl(server, client, *words):
    done = subprocess.run(
        [etcdctl_path(), "--endpoints", server.client_url, *server.client_flags(client), *words],
        capture_output=True, text=True, timeout=SECONDS, check=False,
        env={**clean_environment(), "ETCDCTL_API": "3"},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def set_up_users(server, root):
    """As docs/doors/etcd.md says."""
    for words in (
        "user add root --no-password", "user grant-role root root", "user add kube --no-password", "role add kube",
        "user grant-role kube kube", "role grant-permission kube readwrite --prefix=true /registry/",
        "role grant-permission kube readwrite compact_rev_key", "auth enable",
    ):  # fmt: skip
        code, told = etcdctl(server, root, *words.split())
        assert code == 0, f"{words}: {told}"


class Kube:
    """leased, the apiserver, and who may ask leased."""

    def __init__(self, folder, authority):
        trusted = authority.certificate
        self.root, self.kube, self.guest = (
            authority.sign(name, common_name=name) for name in ("root", "kube", "guest")
        )
        flags = [*server_files(authority), "--client-cert-auth", "--trusted-ca-file", trusted]
        self.server = TlsServer(KIND_LEASED, flags, trusted, client=self.root)
        self.server.start()
        set_up_users(self.server, self.root)
        self.api = ApiServer(folder, self.server, trusted, self.kube)

    def close(self):
        self.api.process.terminate()
        self.server.close()


@pytest.fixture(name="kube", scope="module")
def a_kube(tmp_path_factory):
    with Authority() as authority:
        made = Kube(str(tmp_path_factory.mktemp("kube")), authority)
        try:
            begun = time.monotonic()
            wait_for(made.api.is_ready, START_SECONDS, "the kube-apiserver")
            report("kube-apiserver ready", seconds=round(time.monotonic() - begun, 1))
            yield made
        finally:
            made.close()


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def create_namespace(api, name):
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert api.ask("POST", "/api/v1/namespaces", body)[0] == 201
    return f"/api/v1/namespaces/{name}"


def test_objects_are_made_listed_in_pages_and_removed(kube):
    api = kube.api
    maps = create_namespace(api, "pages") + "/configmaps"
    for index in range(CONFIG_MAPS):
        assert api.ask("POST", maps, config_map(f"map-{index:03}", value=str(index)))[0] == 201
    assert api.ask("POST", maps, config_map("map-000"))[0] == 409
    names, token = [], ""
    while True:
        status, page = api.ask("GET", f"{maps}?limit={PAGE}&continue={token}")
        assert status == 200
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"].get("continue", "")
        if not token:
            break
    assert names == sorted({f"map-{index:03}" for index in range(CONFIG_MAPS)})
    assert api.ask("DELETE", maps)[0] == 200
    assert api.ask("GET", maps)[1]["items"] == []


def test_a_watch_tells_every_change(kube):
    api = kube.api
    maps = create_namespace(api, "watched") + "/configmaps"
    start = api.ask("GET", maps)[1]["metadata"]["resourceVersion"]
    watch = api.open("GET", f"{maps}?watch=true&resourceVersion={start}")
    for index in range(EVENTS):
        assert api.ask("POST", maps, config_map(f"m{index}"))[0] == 201
        patch = {"data": {"key": str(index)}}
        assert api.ask("PATCH", f"{maps}/m{index}", patch, kind="application/merge-patch+json")[0] == 200
        assert api.ask("DELETE", f"{maps}/m{index}")[0] == 200
    seen = [json.loads(watch.readline()) for _ in range(3 * EVENTS)]
    expected = [(kind, f"m{index}") for index in range(EVENTS) for kind in ("ADDED", "MODIFIED", "DELETED")]
    assert [(event["type"], event["object"]["metadata"]["name"]) for event in seen] == expected


def test_a_lease_object_has_one_holder(kube):
    api = kube.api
    create_namespace(api, "leases")
    leases = "/apis/coordination.k8s.io/v1/namespaces/leases/leases"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"},
            "spec": {"holderIdentity": "a", "leaseDurationSeconds": 15}}  # fmt: skip
    status, made = api.ask("POST", leases, body)
    assert status == 201
    for holder, expected in (("b", 200), ("c", 409)):  # both have read the same version
        taken = {**made, "spec": {**made["spec"], "holderIdentity": holder}}
        assert api.ask("PUT", f"{leases}/one", taken)[0] == expected
    assert api.ask("GET", f"{leases}/one")[1]["spec"]["holderIdentity"] == "b"


def test_a_token_of_a_service_account_is_good(kube):
    api = kube.api
    space = create_namespace(api, "accounts")
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}}
    assert api.ask("POST", f"{space}/serviceaccounts", body)[0] == 201
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    status, answer = api.ask("POST", f"{space}/serviceaccounts/robot/token", request)
    assert status == 201
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
              "spec": {"token": answer["status"]["token"]}}  # fmt: skip
    told = api.ask("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)[1]["status"]
    assert told["authenticated"] and told["user"]["username"] == "system:serviceaccount:accounts:robot"


def test_it_keeps_to_its_keys_and_others_keep_out(kube):
    code, told = etcdctl(kube.server, kube.root, "get", "", "--prefix", "--keys-only")
    assert code == 0
    keys = told.split()
    assert keys and all(key.startswith("/registry/") or key == "compact_rev_key" for key in keys)
    for words in (["get", "/registry/", "--prefix"], ["put", "/registry/x", "y"], ["del", "/registry/", "--prefix"]):
        assert etcdctl(kube.server, kube.guest, *words)[0] != 0
    code, told = etcdctl(kube.server, kube.kube, "put", "/elsewhere", "x")
    assert code != 0 and "permission denied" in told
    report("kube-apiserver keys", keys=len(keys))


def test_it_compacts_and_goes_on_after_a_crash_of_leased(kube):
    api, server = kube.api, kube.server
    wait_for(lambda: server.metric("etcd_debugging_mvcc_compact_revision") > 0, SECONDS, "a compaction")
    maps = create_namespace(api, "crash") + "/configmaps"
    assert api.ask("POST", maps, config_map("before"))[0] == 201
    server.kill()
    server.start()

    def works():
        try:
            return api.ask("PUT", f"{maps}/before", config_map("before", after="crash"), timeout=10)[0] == 200
        except OSError:
            return False

    wait_for(works, SECONDS, "a write after the restart")
    wait_for(api.is_ready, SECONDS, "the kube-apiserver to be ready again")
    assert api.ask("GET", f"{maps}/before")[1]["data"] == {"after": "crash"}
