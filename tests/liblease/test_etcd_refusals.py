"""Requests that etcd refuses for a moment, without a leader or with too many requests, from a fake that refuses chosen ones."""
import concurrent.futures
import threading
import time

import grpc
import pytest
from etcd3 import etcdrpc
from etcd3.etcdrpc import kv_pb2

import lease
from harness import wait_for

SECONDS = 20.0
PUT = "request_put"
DELETE = "request_delete_range"
RANGE = "request_range"
NO_LEADER = (grpc.StatusCode.UNAVAILABLE, "etcdserver: no leader")
TOO_MANY = (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: too many requests")
NO_SPACE = (grpc.StatusCode.RESOURCE_EXHAUSTED, "etcdserver: mvcc: database space exceeded")


OLD_TOKEN = (grpc.StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token")
GRANT = "grant"


class FakeEtcd(etcdrpc.AuthServicer, etcdrpc.KVServicer, etcdrpc.LeaseServicer, etcdrpc.WatchServicer):
    """The leases and transactions that locks of liblease consist of; a watch is canceled at once. What it does not know is
    UNIMPLEMENTED."""

    def __init__(self):
        self.keys = {}  # key: (value, lease, create revision)
        # What the next transactions that begin with it are answered, perhaps when something has happened.
        self.refusals = {PUT: [], DELETE: [], RANGE: [], GRANT: []}
        self.is_late = False  # refusals come when it was carried out: so etcd says that its quota is exceeded
        self.refused = []  # (request, kind)
        self.has_met = threading.Event()  # a key was made where there was another
        self.n_deletions = 0
        self.n_watches = 0
        self.may_delete = threading.Event()  # transactions that begin with a deletion wait for it
        self.may_delete.set()
        self._revision = 1
        self._n_leases = 0
        self._mutex = threading.Lock()

    def tokens(self):
        with self._mutex:
            return [created for _, _, created in self.keys.values()]

    def _header(self):
        return etcdrpc.ResponseHeader(revision=self._revision)

    def Authenticate(self, request, context):
        return etcdrpc.AuthenticateResponse(header=self._header(), token="token")

    def Watch(self, requests, context):
        for _ in requests:
            self.n_watches += 1
            yield etcdrpc.WatchResponse(header=self._header(), created=True, canceled=True)

    def LeaseGrant(self, request, context):
        if self.refusals[GRANT]:
            context.abort(*self.refusals[GRANT].pop(0))
        with self._mutex:
            self._n_leases += 1
            return etcdrpc.LeaseGrantResponse(header=self._header(), ID=self._n_leases, TTL=request.TTL)

    def LeaseRevoke(self, request, context):
        with self._mutex:
            self._revision += 1
            self.keys = {key: entry for key, entry in self.keys.items() if entry[1] != request.ID}
            return etcdrpc.LeaseRevokeResponse(header=self._header())

    def Range(self, request, context):
        with self._mutex:
            found = self._range(request)
            found.header.CopyFrom(self._header())
            return found

    def Txn(self, request, context):
        kind = request.success[0].WhichOneof("request")
        with self._mutex:
            refusals = self.refusals.get(kind)
            refusal = refusals.pop(0) if refusals else None
        if refusal:
            code, text, *when = refusal
            assert all(event.wait(SECONDS) for event in when)
            self.refused.append((request, kind))
            if self.is_late:
                with self._mutex:
                    self._apply(request, kind)
            context.abort(code, text)
        if kind == DELETE:
            self.may_delete.wait(SECONDS)
        with self._mutex:
            return self._apply(request, kind)

    def carry_out_refused(self):
        """As a member does that was stopped when the request had come, and goes on."""
        with self._mutex:
            for request, kind in self.refused:
                self._apply(request, kind)

    def _apply(self, request, kind):
        succeeded = all(self._holds(each) for each in request.compare)
        operations = request.success if succeeded else request.failure
        if any(each.WhichOneof("request") != RANGE for each in operations):
            self._revision += 1
        if kind == PUT and self.keys:
            self.has_met.set()
        self.n_deletions += kind == DELETE
        return etcdrpc.TxnResponse(
            succeeded=succeeded, responses=[self._operate(each) for each in operations], header=self._header()
        )

    def _holds(self, compare):
        assert compare.target == etcdrpc.Compare.CREATE
        assert compare.result == etcdrpc.Compare.EQUAL
        return self.keys.get(compare.key, (b"", 0, 0))[2] == compare.create_revision

    def _operate(self, operation):
        kind = operation.WhichOneof("request")
        if kind == PUT:
            put = operation.request_put
            created = self.keys.get(put.key, (b"", 0, self._revision))[2]
            self.keys[put.key] = (put.value, put.lease, created)
            return etcdrpc.ResponseOp(response_put=etcdrpc.PutResponse())
        if kind == DELETE:
            n_deleted = int(self.keys.pop(operation.request_delete_range.key, None) is not None)
            return etcdrpc.ResponseOp(response_delete_range=etcdrpc.DeleteRangeResponse(deleted=n_deleted))
        return etcdrpc.ResponseOp(response_range=self._range(operation.request_range))

    def _range(self, asked):
        end = asked.range_end or asked.key + b"\0"
        found = [
            kv_pb2.KeyValue(key=key, value=value, lease=lease_id, create_revision=created)
            for key, (value, lease_id, created) in self.keys.items()
            if asked.key <= key < end and created <= (asked.max_create_revision or created)
        ]
        found.sort(key=lambda each: each.create_revision, reverse=asked.sort_order == etcdrpc.RangeRequest.DESCEND)
        return etcdrpc.RangeResponse(kvs=found[: asked.limit or None], count=len(found))


@pytest.fixture
def etcd():
    fake = FakeEtcd()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    etcdrpc.add_AuthServicer_to_server(fake, server)
    etcdrpc.add_KVServicer_to_server(fake, server)
    etcdrpc.add_LeaseServicer_to_server(fake, server)
    etcdrpc.add_WatchServicer_to_server(fake, server)
    fake.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield fake
    fake.may_delete.set()
    server.stop(None).wait()


@pytest.fixture
def session(etcd):
    with lease.Client(etcd.endpoint, protocol=lease.Protocol.ETCD) as client:
        yield client.session(ttl=600)


def test_a_place_that_is_being_given_back_is_not_taken_for_a_new_one(etcd, session, prefix):
    first = session.lock(prefix)
    assert etcd.tokens() == [first.token]
    etcd.refusals[DELETE].append(NO_LEADER)
    etcd.refusals[PUT].append(NO_LEADER)
    etcd.may_delete = etcd.has_met  # the second request for a place comes before the second one for the deletion
    first.release(wait=False)
    again = session.lock(prefix, wait=SECONDS)
    assert etcd.has_met.is_set()
    assert not any(etcd.refusals.values())
    assert again.token > first.token
    assert etcd.tokens() == [again.token]
    assert again.valid_for > 0


def test_a_release_that_is_refused_for_want_of_room_is_repeated(etcd, session, prefix):
    hold = session.lock(prefix)
    assert etcd.tokens() == [hold.token]
    etcd.refusals[DELETE].extend([TOO_MANY, TOO_MANY])
    hold.release(wait=False)
    wait_for(lambda: not etcd.tokens(), SECONDS, "the key is deleted")
    assert etcd.refusals[DELETE] == []
    assert session.valid_for > 0


def test_a_place_of_another_thread_is_not_taken_for_its_own(etcd, session, prefix):
    is_held = threading.Event()
    etcd.refusals[PUT].append((*NO_LEADER, is_held))
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        second = thread.submit(session.lock, prefix, wait=SECONDS)
        wait_for(lambda: not etcd.refusals[PUT], SECONDS, "the first request for a place is there")
        first = session.lock(prefix)
        is_held.set()
        with pytest.raises(lease.Error) as caught:
            second.result(SECONDS)
    assert caught.value.status == lease.Status.REFUSED
    assert etcd.tokens() == [first.token]
    assert first.valid_for > 0


def test_leaving_a_queue_late_takes_nothing_from_the_next_lock(etcd, session, prefix):
    etcd.refusals[PUT].append(NO_LEADER)
    etcd.may_delete.clear()
    with pytest.raises(lease.Error) as caught:
        session.lock(prefix, wait=0.03)
    assert caught.value.status == lease.Status.TIMEOUT
    again = session.lock(prefix, wait=SECONDS)
    etcd.may_delete.set()
    wait_for(lambda: etcd.n_deletions >= 1, SECONDS, "the deletion has come")
    assert etcd.tokens() == [again.token]
    assert again.valid_for > 0


def test_leaving_a_queue_is_repeated_where_a_server_has_no_room(etcd, session, prefix):
    etcd.refusals[PUT].append(NO_LEADER)
    etcd.refusals[DELETE].extend([TOO_MANY, TOO_MANY])
    with pytest.raises(lease.Error):
        session.lock(prefix, wait=0.03)
    wait_for(lambda: etcd.n_deletions >= 1, SECONDS, "the deletion has come")
    assert etcd.tokens() == []


def test_a_place_is_given_back_where_the_queue_cannot_be_seen(etcd, session, prefix):
    etcd.refusals[RANGE].append(TOO_MANY)
    with pytest.raises(lease.Error) as caught:
        session.lock(prefix)
    assert caught.value.status == lease.Status.QUEUE_FULL
    wait_for(lambda: not etcd.tokens(), SECONDS, "the key is deleted")
    assert session.valid_for > 0


def test_a_place_is_given_back_that_was_made_and_refused(etcd, session, prefix):
    etcd.refusals[PUT].append(NO_SPACE)
    etcd.is_late = True
    with pytest.raises(lease.Error) as caught:
        session.lock(prefix)
    assert caught.value.status == lease.Status.QUEUE_FULL
    wait_for(lambda: not etcd.tokens(), SECONDS, "the key is deleted")
    assert session.valid_for > 0


def test_giving_up_a_place_is_repeated_where_a_server_has_no_room(etcd, session, prefix):
    with lease.Client(etcd.endpoint, protocol=lease.Protocol.ETCD) as other:
        hold = other.session(ttl=600).lock(prefix)
        etcd.refusals[DELETE].extend([TOO_MANY, TOO_MANY])
        with pytest.raises(lease.Busy):
            session.lock(prefix, wait=0)
        wait_for(lambda: etcd.tokens() == [hold.token], SECONDS, "the key is deleted")
        assert etcd.refusals[DELETE] == []
    assert session.valid_for > 0


def test_a_place_that_is_made_after_the_queue_was_left_is_given_back(etcd, session, prefix):
    etcd.refusals[PUT].append(NO_LEADER)
    with pytest.raises(lease.Error):
        session.lock(prefix, wait=0.03)
    wait_for(lambda: etcd.n_deletions >= 1, SECONDS, "the deletion has come")
    etcd.carry_out_refused()
    assert etcd.tokens() != []
    wait_for(lambda: not etcd.tokens(), SECONDS, "the key is deleted")
    assert session.valid_for > 0


def test_a_place_that_is_made_after_its_lock_was_released_is_given_back(etcd, session, prefix):
    etcd.refusals[PUT].append(NO_LEADER)
    with session.lock(prefix) as hold:
        etcd.carry_out_refused()
        assert etcd.tokens() == [hold.token]
    wait_for(lambda: etcd.n_deletions >= 1, SECONDS, "the deletion has come")
    etcd.carry_out_refused()
    assert etcd.tokens() != []
    wait_for(lambda: not etcd.tokens(), SECONDS, "the key is deleted")
    assert session.valid_for > 0


def test_what_was_refused_for_an_old_token_is_asked_for_with_a_new_one(etcd, prefix):
    with lease.Client(etcd.endpoint, protocol=lease.Protocol.ETCD, user="u", password="p") as client:
        etcd.refusals[GRANT].append(OLD_TOKEN)
        etcd.refusals[PUT].append(OLD_TOKEN)
        with client.session(ttl=600).lock(prefix) as hold:
            assert etcd.tokens() == [hold.token]
        assert not any(etcd.refusals.values())


def test_a_password_that_is_refused_again_and_again_is_told(etcd, prefix):
    with lease.Client(etcd.endpoint, protocol=lease.Protocol.ETCD, user="u", password="p") as client:
        session = client.session(ttl=600)
        etcd.refusals[PUT].extend([OLD_TOKEN] * 3)
        with pytest.raises(lease.Error) as caught:
            session.lock(prefix)
        assert caught.value.status == lease.Status.DENIED


def test_a_watch_that_is_canceled_is_not_begun_again_at_once(etcd, session, prefix):
    with lease.Client(etcd.endpoint, protocol=lease.Protocol.ETCD) as other:
        other.session(ttl=600).lock(prefix)
        with pytest.raises(lease.Error) as caught:
            session.lock(prefix, wait=0.5)
        assert caught.value.status == lease.Status.TIMEOUT
        assert 1 <= etcd.n_watches <= 20


def test_a_watch_of_an_observer_that_is_canceled_is_not_begun_again_at_once(etcd, session, prefix):
    with session.lock(prefix) as hold:
        seen = []
        with session._client.observe(prefix, lambda resource, error: seen.append(resource)):
            wait_for(lambda: etcd.n_watches >= 3, SECONDS, "it is begun again")
            n_watches = etcd.n_watches
            time.sleep(0.5)
            assert etcd.n_watches - n_watches <= 20
        assert seen[-1].holders[0].token == hold.token
