"""Leases, locks, elections, pools and fences of a leased server, and of etcd as far as etcd can do them.

    import lease

    with lease.Client("127.0.0.1:2379") as client:
        with client.lock("backup") as lock:
            while work_is_left() and lock.valid_for > 1:
                write_block(lock.token)

Times are seconds. `valid_for` counts from the moment in which the last successful renewal was sent, so it reaches 0
before the server lets the next one in, also after this process was stopped. Send `token` with all that is done under
a lock, so that the resource can refuse an older one. `lease.aio` has the same for asyncio.

A client belongs to the process that opened it. In a child of fork() its calls are refused, nothing is valid, and leaving a
`with` block gives nothing back: the parent still has it.
"""
import atexit
import ctypes
import enum
import functools
import os
import threading
import time
import weakref
from collections import namedtuple

from lease import _library, services
from lease._library import byref, library
from lease._library import counted as _counted

__version__ = library.lease_version().decode()


class Status(enum.IntEnum):
    OK = 0
    INVALID = 1
    UNAVAILABLE = 2
    TIMEOUT = 3
    BUSY = 4
    CANCELED = 5
    LOST = 6
    NOT_FOUND = 7
    EXISTS = 8
    DENIED = 9
    REFUSED = 10
    QUEUE_FULL = 11
    STALE = 12
    UNSUPPORTED = 13
    PROTOCOL = 14


class Protocol(enum.IntEnum):
    ANY = 0
    NATIVE = 1
    ETCD = 2


class Purpose(enum.IntEnum):
    """What a session is for: gives the usual TTL and strategy."""

    LOCK = 1
    LEADER = 2
    SESSION = 3
    RESERVATION = 4
    CACHE = 5


class Strategy(enum.IntEnum):
    """When a session is renewed."""

    DEFAULT = 0
    HALF = 1
    CONTINUOUS = 2
    ACTIVITY = 3
    EXPLICIT = 4
    NEVER = 5


class State(enum.IntEnum):
    VALID = 0
    JEOPARDY = 1
    LOST = 2
    ENDED = 3


class Event(enum.IntEnum):
    JEOPARDY = 1
    RESTORED = 2
    LOST = 3


class ChangeType(enum.IntEnum):
    QUEUED = 0
    ACQUIRED = 1
    ENDED = 2
    PROCLAIMED = 3


class Error(Exception):
    """What a call was refused with: `status`, and a sentence as the text."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Busy(Error):
    """Somebody else has it."""


class Timeout(Error):
    """Not done in time."""


class Lost(Error):
    """The session has ended or is not valid any more."""


class Stale(Error):
    """The token is older than one that was seen; `highest` is that one."""

    highest = 0


_SLICE_MS = 200  # of a wait: so long may Ctrl-C take

_ERRORS = {Status.BUSY: Busy, Status.TIMEOUT: Timeout, Status.LOST: Lost, Status.STALE: Stale}

Slot = namedtuple("Slot", "pool slot")
Acquisition = namedtuple("Acquisition", "id session_id token names slots value owner")
Resource = namedtuple("Resource", "name holders waiting first_waiting remaining token revision")
Change = namedtuple("Change", "revision type acquisition ended")
Ended = namedtuple("Ended", "acquisition reason by revision wall_ms")
Entry = namedtuple("Entry", "key value lease_id revision")


def _check(status):
    if status:
        status = Status(status)
        text = library.lease_error().decode("utf-8", "replace")
        raise _ERRORS.get(status, Error)(status, text)


def _bytes(text):
    return None if text is None else str(text).encode()


def _text(value):
    return "" if value is None else value.decode("utf-8", "replace")


def _ms(seconds):
    return max(1, int(seconds * 1000)) if seconds else 0


def _wait_ms(seconds):
    """None: without limit."""
    return -1 if seconds is None else _ms(seconds)


def _acquisition(found):
    names = [_text(found.wants[i].resource or found.wants[i].pool) for i in range(found.n_wants)]
    slots = [Slot(_text(found.slots[i].pool), _text(found.slots[i].slot)) for i in range(found.n_slots)]
    return Acquisition(found.id, found.session_id, found.token, names, slots, _text(found.value), _text(found.owner))


def _resource(found):
    return Resource(
        _text(found.name),
        [_acquisition(found.holders[i]) for i in range(found.n_holders)],
        found.n_waiting,
        [_acquisition(found.first_waiting[i]) for i in range(found.n_first_waiting)],
        found.remaining_ms / 1000 if found.remaining_ms >= 0 else None,
        found.last_token,
        found.revision,
    )


def _release(function, value, calls, _parents):
    with calls.mine():
        function(value)


class _Handle:
    """Something of the library's that is released once, and before what it belongs to. `calls` are those of the client or
    session that is closed after it."""

    def __init__(self, value, release, calls, *parents):
        self._value = value
        self._calls = calls
        self._release = weakref.finalize(self, _release, release, value, calls, parents)

    @classmethod
    def open(cls, start, release, calls, *parents):
        """What `start`, a call of the library, begins; an exception, as by Ctrl-C, leaves nothing of it."""
        value = ctypes.c_void_p()
        try:
            _check(start(byref(value)))
            return cls(value, release, calls, *parents)
        except BaseException:
            release(value)
            value.value = None  # a handle that was being made has the same
            raise

    def close(self):
        with self._calls.mine():  # before it is not alive any more: whoever closes the client waits for it
            self._release()

    @property
    def value(self):
        if not self.alive:
            raise Error(Status.INVALID, "it was closed, released or ended before")
        return self._value

    @property
    def alive(self):
        return self._release.alive


class _Calls:
    """The calls of the library that threads have under way with a client or a session, which must not be destroyed
    before."""

    def __init__(self):
        self.is_closing = False
        self._by_thread = {}
        self._process_id = os.getpid()
        self._claim = threading.Lock()

    def claim_end(self):
        """True once: two threads that end the same would wait for each other."""
        return self._claim.acquire(blocking=False)

    def mine(self):
        """Entered by this thread for a call. It is left without code of Python, before which a signal may be handled."""
        thread = threading.get_ident()
        return self._by_thread.get(thread) or self._by_thread.setdefault(thread, threading.RLock())

    def check(self):
        """To be asked after mine() was entered: close() says that it closes, then waits for those who have."""
        if self.is_closing:
            raise Error(Status.INVALID, "it was closed, released or ended before")

    def close(self):
        """No more calls; waits until other threads have none. A child of fork() has none of these threads."""
        self.is_closing = True
        if os.getpid() == self._process_id:
            for each in list(self._by_thread.values()):
                with each:
                    pass


def _run_outside(calls, function):
    """What waits for other threads: one of these may wait for the end of the callback that calls it."""
    if _library.is_in_callback(calls):
        threading.Thread(target=function).start()
    else:
        function()


def _wait_sliced(function, handle, seconds, calls):
    """Python handles signals, and a client can be closed, between calls of the library."""
    end = None if seconds is None else time.monotonic() + seconds
    while True:
        left_ms = _SLICE_MS if end is None else min(_SLICE_MS, int((end - time.monotonic()) * 1000))
        status = function(handle.value, max(left_ms, 0))
        if status != Status.TIMEOUT or left_ms <= 0:
            return _check(status)
        _check_open(calls)


def _check_open(calls):
    if calls.is_closing:
        raise Error(Status.CANCELED, "the client or the session was closed meanwhile")


class _Itself(property):
    """An __enter__() that calls no code of Python, before which a signal would be handled and the hold be lost."""

    def __call__(self, hold):
        return hold


class Hold:
    """Something acquired. As a context manager it is given back at the end, without waiting for the server's answer."""

    __enter__ = _Itself(weakref.ref)
    _value = None  # until __init__(), which a signal may keep from running

    def __init__(self, session):
        """Made before it is acquired: nothing is left to do then in which a signal could lose it."""
        self._value = ctypes.c_void_p()  # the library's, until this object is gone: `acquisition` reads it
        self._session = session
        self._is_released = False
        self.token = 0

    def __del__(self, _destroy=library.lease_hold_destroy):
        _destroy(self._value)

    @property
    def _calls(self):
        return self._session._calls

    @property
    def _is_alive(self):
        return not self._is_released and self._session._is_alive

    @property
    def _handle(self):
        if not self._is_alive:
            raise Error(Status.INVALID, "it was closed, released or ended before")
        return self._value

    @property
    def session(self):
        return self._session

    @functools.cached_property
    def acquisition(self):
        return _acquisition(library.lease_hold_acquisition(self._value).contents)

    @property
    def slots(self):
        return self.acquisition.slots

    @property
    def valid_for(self):
        """Seconds for which it is certainly still valid; 0: it is not, and will not be again."""
        try:
            with self._calls.mine():
                self._calls.check()
                return library.lease_hold_valid_for_ms(self._value) / 1000 if self._is_alive else 0.0
        except Error:
            return 0.0

    def release(self, wait=True):
        """Gives it back. Error with NOT_FOUND: it had ended already; with UNAVAILABLE or Timeout: the library goes on
        giving it back while its session lives, and another call asks again. Without `wait` the request is sent, and the
        library repeats it until a server has answered."""
        if self._is_alive:
            with self._calls.mine():
                self._calls.check()
                if not wait:
                    library.lease_release_start(self._value)
                    self._is_released = True
                    return
                status = library.lease_release(self._value)
                self._is_released = status in (Status.OK, Status.NOT_FOUND, Status.LOST)
                _check(status)

    @_counted
    def proclaim(self, value):
        """Another value for observers."""
        _check(library.lease_proclaim(self._handle, _bytes(value)))

    @_counted
    def transfer(self, session_id=0, owner=None):
        """Hands it to a session, or to the first waiting one of an owner."""
        _check(library.lease_transfer(self._handle, session_id, _bytes(owner)))

    def _give_back(self):
        """An exception came, as by Ctrl-C, and nobody gets it."""
        with self._calls.mine():
            if self._value.value and self._is_alive:
                library.lease_release_start(self._value)

    def _has_to_wait(self):
        """One that was lost is asked for, so that its holder is told; etcd keeps no order between two requests."""
        return self.valid_for == 0 or self._session._client.protocol != Protocol.NATIVE

    def __exit__(self, kind, *_):
        try:
            self.release(wait=self._has_to_wait())
        except Error as error:
            if kind is None and error.status != Status.NOT_FOUND and not self._session._client._is_inherited:
                raise


def _hand_over(handle, target):
    """As a call of the library that begins what `handle` is."""
    target._obj.value, handle.value = handle.value, None
    return Status.OK


class _Pending:
    """An acquisition that has begun. `on_done()`, if any, is called when it is decided, from a thread of the library, and
    when its session goes."""

    def __init__(self, session, wants, wait, value, hold_limit, queue_limit, on_progress, on_done=None):
        self._on_done = on_done
        array = (_library.Want * len(wants))(*wants)
        options = _library.AcquireOptions(
            ctypes.sizeof(_library.AcquireOptions), array, len(wants), _wait_ms(wait), _bytes(value),
            _ms(hold_limit), queue_limit, _library.ProgressCallback(), None,
        )  # fmt: skip
        if on_progress is not None:
            def tell(progress, _context):
                found = progress.contents
                holders = [_acquisition(found.holders[i]) for i in range(found.n_holders)]
                left = found.holder_remaining_ms
                on_progress(found.position, holders, left / 1000 if left >= 0 else None)

            options.on_progress = _library.callback(_library.ProgressCallback, session._client._calls, tell)
        done = _library.AcquiredCallback()
        if on_done is not None:
            done = _library.callback(_library.AcquiredCallback, session._client._calls, lambda *_: on_done())
        with session._calls.mine():
            session._calls.check()
            start = functools.partial(library.lease_acquire_start, session._handle.value, byref(options), done, None)
            self._take(session, start, options.on_progress, done)

    def _take(self, session, start, *kept):
        self.session = session
        self._handle = _Handle.open(start, library.lease_wait_destroy, session._calls, session._handle, *kept)
        try:
            session._pendings.add(self)
        except BaseException:
            self._handle.close()
            raise

    @classmethod
    def of(cls, session, start):
        """One that is begun by `start`."""
        pending = cls.__new__(cls)
        pending._on_done = None
        pending._take(session, start)
        return pending

    def finish(self, hold=None):
        hold = hold or Hold(self.session)
        try:
            with self.session._calls.mine():
                self.session._calls.check()
                try:
                    _check(self._wait(hold._value))
                    hold.token = library.lease_hold_token(hold._value)
                finally:
                    self._handle.close()
        except BaseException:
            hold._give_back()
            raise
        return hold

    def _wait(self, hold):
        """Python handles signals, and a session can be ended, between calls of the library."""
        while True:
            status = library.lease_wait_finish(self._handle.value, _SLICE_MS, byref(hold))
            if status != Status.TIMEOUT:
                return status
            if library.lease_wait_is_over(self._handle.value):  # by its own limit, or decided since
                return library.lease_wait_finish(self._handle.value, 0, byref(hold))
            _check_open(self.session._calls)

    def cancel(self):
        """Leaves the queue; does nothing when it is over."""
        calls = self.session._calls
        with calls.mine():
            if self._handle.alive and not calls.is_closing:
                library.lease_wait_cancel(self._handle.value)

    def close(self):
        """Leaves the queue, or gives back what nobody took. Does not wait for the server."""
        self._handle.close()

    def abandon(self):
        """Its session goes: whoever waits is told, and finds it closed."""
        self.close()
        if self._on_done is not None:
            self._on_done()


class Session:
    """A lease with an owner, kept by a thread of the library. As a context manager it is ended."""

    def __init__(self, client, ttl=None, purpose=Purpose.LOCK, strategy=Strategy.DEFAULT, owner=None, note=None,
                 parent_id=0, on_event=None):  # fmt: skip
        self._client = client
        self._calls = _Calls()
        self._pendings = weakref.WeakSet()
        options = _library.SessionOptions(
            ctypes.sizeof(_library.SessionOptions), purpose, _ms(ttl), strategy, _bytes(owner), _bytes(note),
            parent_id, _library.EventCallback(), None,
        )  # fmt: skip
        if on_event is not None:
            reference = weakref.ref(self)

            def tell(_session, event, reason, _context):
                on_event(reference(), Event(event), _text(reason))

            options.on_event = _library.callback(_library.EventCallback, client._calls, tell)
        with client._calls.mine():
            client._calls.check()
            start = functools.partial(library.lease_session_create, client._handle.value, byref(options))
            self._handle = _Handle.open(
                start, library.lease_session_destroy, client._calls, client._handle, options.on_event
            )
            try:
                client._sessions.add(self)
            except BaseException:
                self._handle.close()
                raise

    @property
    def _is_alive(self):
        return self._handle.alive and not self._calls.is_closing

    @property
    @_counted
    def id(self):
        return library.lease_session_id(self._handle.value)

    @property
    @_counted
    def ttl(self):
        return library.lease_session_ttl_ms(self._handle.value) / 1000

    @property
    def state(self):
        try:
            with self._calls.mine():
                self._calls.check()
                return State(library.lease_session_state(self._handle.value))
        except Error:
            return State.ENDED

    @property
    def valid_for(self):
        """Seconds for which it is certainly still valid; 0: it is not, and will not be again."""
        try:
            with self._calls.mine():
                self._calls.check()
                return library.lease_valid_for_ms(self._handle.value) / 1000
        except Error:
            return 0.0

    @_counted
    def touch(self):
        library.lease_session_touch(self._handle.value)

    @_counted
    def renew(self):
        _check(library.lease_session_renew(self._handle.value))

    @_counted
    def change(self, ttl):
        _check(library.lease_session_change(self._handle.value, _ms(ttl)))

    def end(self):
        """Gives back all that it has. Threads that wait in it get an Error."""
        if self._is_alive and self._calls.claim_end():
            with self._calls.mine():  # a client that is closed meanwhile waits for it
                try:
                    self._calls.is_closing = True
                    _check(library.lease_session_end(self._handle.value))
                finally:
                    _run_outside(self._client._calls, self._destroy)

    def _destroy(self):
        self._calls.close()
        for pending in list(self._pendings):
            pending.abandon()
        self._calls.close()  # other threads may be closing some of these
        self._handle.close()

    def acquire_start(self, wants, wait=None, value=None, hold_limit=0, queue_limit=0, on_progress=None, on_done=None):
        return _Pending(self, wants, wait, value, hold_limit, queue_limit, on_progress, on_done)

    # A call with ** is followed by a look for signals, which would lose the hold: none gives one.

    def acquire(self, *names, shared=False, wait=None, pools=None, **how):
        """All of these resources and slots of `pools` ({name: n}), or none. wait None: without limit; 0: not at all."""
        return self._acquire(names, shared, wait, pools, how)

    lock = acquire

    def campaign(self, name, value, shared=False, wait=None, pools=None, **how):
        return self._acquire((name,), shared, wait, pools, {**how, "value": value})

    def reserve(self, pool, slots=1, shared=False, wait=None, **how):
        return self._acquire((), shared, wait, {pool: slots}, how)

    def _acquire(self, names, shared, wait, pools, how):
        if len(names) == 1 and not pools and not how:
            return self._lock(names[0], shared, wait)
        pending = self.acquire_start(wants(*names, shared=shared, pools=pools), wait, **how)
        return pending.finish()

    def _lock(self, name, shared, wait):
        """What most programs do all the time: one call of the library instead of three."""
        hold = Hold(self)
        try:
            with self._calls.mine():
                self._calls.check()
                pending = self._lock_within(name, shared, wait, hold)
                if pending is None:
                    hold.token = library.lease_hold_token(hold._value)
                else:
                    pending.finish(hold)
        except BaseException:
            hold._give_back()
            raise
        return hold

    def _lock_within(self, name, shared, wait, hold):
        """None: `hold` has it."""
        waiting = ctypes.c_void_p()
        try:
            status = library.lease_lock_within(
                self._handle.value, _bytes(name), shared, _wait_ms(wait), _SLICE_MS, byref(hold._value), byref(waiting)
            )
            if waiting.value:
                return _Pending.of(self, functools.partial(_hand_over, waiting))
            _check(status)
            return None
        except BaseException:
            library.lease_wait_destroy(waiting)
            raise

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.end()
        except Error:
            if kind is None and not self._client._is_inherited:
                raise


def wants(*names, shared=False, pools=None):
    """What is to be acquired, for acquire_start()."""
    each = [_library.Want(_bytes(name), int(shared), None, 0) for name in names]
    return each + [_library.Want(None, 0, _bytes(pool), slots) for pool, slots in (pools or {}).items()]


class Watch:
    """Tells what happens until it is closed."""

    def __init__(self, client, kind, start, convert, on_change):
        def tell(found, status, reason, _context):
            if found:
                on_change(convert(found.contents), None)
            else:
                on_change(None, Error(Status(status), _text(reason)))

        callback = _library.callback(kind, client._calls, tell)
        start = functools.partial(start, callback, None)
        self._handle = client._open(self, start, library.lease_watch_destroy, callback)

    def close(self):
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Directory:
    """The keys under a prefix, kept up to date; `age` tells how old they may be."""

    def __init__(self, client, prefix, on_change):
        self._calls = client._calls
        callback = _library.DirectoryCallback()
        if on_change is not None:
            reference = weakref.ref(self)

            def tell(_directory, status, reason, _context):
                error = None if status == Status.OK else Error(Status(status), _text(reason))
                directory = reference()
                if directory is not None:
                    on_change(directory, error)

            callback = _library.callback(_library.DirectoryCallback, client._calls, tell)
        start = functools.partial(library.lease_discover, client._handle.value, _bytes(prefix), callback, None)
        self._handle = client._open(self, start, library.lease_directory_destroy, callback)

    @_counted
    def wait(self, seconds=None):
        """Until it has its entries; Timeout."""
        _wait_sliced(library.lease_directory_wait, self._handle, seconds, self._calls)

    @_counted
    def entries(self):
        """{key: Entry}, from memory; keys and values are bytes."""
        found = ctypes.POINTER(_library.EntryList)()
        _check(library.lease_directory_entries(self._handle.value, byref(found)))
        try:
            items = [found.contents.items[i] for i in range(found.contents.n_items)]
            each = [Entry(ctypes.string_at(one.key, one.key_size), ctypes.string_at(one.value, one.value_size),
                          one.lease_id, one.revision) for one in items]  # fmt: skip
            return {one.key: one for one in each}
        finally:
            library.lease_free(found)

    @property
    @_counted
    def age(self):
        """The entries are those of a moment at most so many seconds ago; None: it has none yet."""
        age_ms = library.lease_directory_age_ms(self._handle.value)
        return age_ms / 1000 if age_ms >= 0 else None

    def close(self):
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


_clients = weakref.WeakSet()


def _close_last(calls, connection):
    """At the end of the program a daemon thread may just be destroying what it dropped."""
    calls.close()
    library.lease_close(connection)


def _stop_calls():
    """At the end of the program, where daemon threads go on while finalizers destroy what they use."""
    for client in list(_clients):
        client._calls.close()  # no more sessions
        each = [session._calls for session in list(client._sessions)]
        for calls in each:
            calls.is_closing = True
        for calls in each:
            calls.close()


class Client:
    """A connection to one cluster, over whichever of its endpoints answers."""

    def __init__(self, endpoints=None, *, ca_file=None, cert_file=None, key_file=None, insecure_skip_verify=False,
                 user=None, password=None, token=None, connect_timeout=0, request_timeout=0,
                 protocol=Protocol.ANY, owner=None):  # fmt: skip
        options = _library.Options(
            ctypes.sizeof(_library.Options), _bytes(endpoints), _bytes(ca_file), _bytes(cert_file), _bytes(key_file),
            insecure_skip_verify, _bytes(user), _bytes(password), _bytes(token), _ms(connect_timeout),
            _ms(request_timeout), protocol, False, _bytes(owner),
        )  # fmt: skip
        self._calls = _Calls()
        self._handle = _Handle.open(
            functools.partial(library.lease_open, byref(options)),
            functools.partial(_close_last, self._calls),
            self._calls,
        )
        self._sessions = weakref.WeakSet()
        self._watches = weakref.WeakSet()
        self._mutex = threading.Lock()
        self._shared_session = None
        self._process_id = os.getpid()
        _clients.add(self)

    @property
    def _is_inherited(self):
        return os.getpid() != self._process_id

    @_counted
    def connect(self):
        """Waits until a server answers."""
        _check(library.lease_connect(self._handle.value))

    @property
    @_counted
    def protocol(self):
        return Protocol(library.lease_protocol_used(self._handle.value))

    def session(self, **options):
        return Session(self, **options)

    def _usual_session(self):
        if self._is_inherited:
            return Session(self)  # is refused; the mutex may be held by a thread of the parent
        with self._mutex:
            if self._shared_session is None or self._shared_session.valid_for <= 0:
                self._shared_session = Session(self)
            return self._shared_session

    def lock(self, *names, shared=False, wait=None, pools=None, **how):
        """A lock in the client's own session. wait None: without limit; 0: not at all."""
        session = self._usual_session()
        return session._acquire(names, shared, wait, pools, how)

    def campaign(self, name, value, shared=False, wait=None, pools=None, **how):
        session = self._usual_session()
        return session._acquire((name,), shared, wait, pools, {**how, "value": value})

    def reserve(self, pool, slots=1, shared=False, wait=None, **how):
        session = self._usual_session()
        return session._acquire((), shared, wait, {pool: slots}, how)

    @_counted
    def end_session(self, session_id):
        _check(library.lease_end_id(self._handle.value, session_id))

    @_counted
    def fence_check(self, resource, token):
        """Remembers the token; Stale when a higher one was seen. Gives the highest."""
        highest = ctypes.c_int64()
        try:
            _check(library.lease_fence_check(self._handle.value, _bytes(resource), token, byref(highest)))
        except Stale as error:
            error.highest = highest.value
            raise
        return highest.value

    @_counted
    def fence(self, resource):
        highest = ctypes.c_int64()
        _check(library.lease_fence_get(self._handle.value, _bytes(resource), byref(highest)))
        return highest.value

    @_counted
    def resource(self, name, waiters=0):
        """Who has it, and who waits."""
        found = ctypes.POINTER(_library.Resource)()
        _check(library.lease_resource_get(self._handle.value, _bytes(name), waiters, byref(found)))
        try:
            return _resource(found.contents)
        finally:
            library.lease_free(found)

    @_counted
    def observe(self, name, on_change):
        """Calls on_change(resource, error) now and with every change, from a thread of the library."""
        start = functools.partial(library.lease_observe, self._handle.value, _bytes(name))
        return Watch(self, _library.ResourceCallback, start, _resource, on_change)

    @_counted
    def watch(self, prefix, on_change, start_revision=0):
        """Calls on_change(change, error) with all that happens to resources and pools under the prefix."""
        start = functools.partial(library.lease_watch_changes, self._handle.value, _bytes(prefix), start_revision)
        return Watch(self, _library.ChangeCallback, start, _change, on_change)

    @_counted
    def discover(self, prefix, on_change=None):
        """A Directory of the keys under the prefix; calls on_change(directory, error) from a thread of the library."""
        return Directory(self, prefix, on_change)

    @_counted
    def register(self, service, address, port=0, **options):
        """A services.Registration, which ends with the client."""
        return services.Registration(self, _check, service, address, port, **options)

    @_counted
    def service(self, name, **options):
        """A services.Service, which ends with the client."""
        return services.Service(self, _check, name, **options)

    def _wait(self, function, handle, seconds):
        _wait_sliced(function, handle, seconds, self._calls)

    def _open(self, owner, start, release, *kept):
        """The handle of an object that is closed with the client, or before it at the end of the program."""
        handle = _Handle.open(start, release, self._calls, self._handle, *kept)
        try:
            self._watches.add(owner)
        except BaseException:  # a function of Python, before which a signal is handled: nobody else would close it
            handle.close()
            raise
        return handle

    @_counted
    def pool_set(self, name, slots, hold_limit=0, shares=None):
        texts = (ctypes.c_char_p * len(slots))(*[_bytes(slot) for slot in slots])
        weights = [_library.Share(_bytes(owner), weight) for owner, weight in (shares or {}).items()]
        array = (_library.Share * len(weights))(*weights)
        pool = _library.Pool(_bytes(name), texts, len(slots), _ms(hold_limit), array, len(weights), None, 0, 0)
        _check(library.lease_pool_set(self._handle.value, byref(pool)))

    @_counted
    def pool_remove(self, name):
        _check(library.lease_pool_remove(self._handle.value, _bytes(name)))

    @_counted
    def pool(self, name):
        """({slot: owner or None}, how many wait)"""
        found = ctypes.POINTER(_library.Pool)()
        _check(library.lease_pool_get(self._handle.value, _bytes(name), byref(found)))
        try:
            pool = found.contents
            slots = {_text(pool.slots[i]): None for i in range(pool.n_slots)}
            for i in range(pool.n_taken):
                slots[_text(pool.taken[i].slot)] = _text(pool.taken[i].owner)
            return slots, pool.n_waiting
        finally:
            library.lease_free(found)

    @_counted
    def why(self, resource=None, pool=None, session_id=0, limit=0):
        """What ended, newest first."""
        query = _library.WhyQuery(ctypes.sizeof(_library.WhyQuery), _bytes(resource), _bytes(pool), session_id, 0,
                                  limit)  # fmt: skip
        found = ctypes.POINTER(_library.History)()
        _check(library.lease_why(self._handle.value, byref(query), byref(found)))
        try:
            history = found.contents
            return [_ended(history.ended[i]) for i in range(history.n_ended)]
        finally:
            library.lease_free(found)

    def close(self):
        """Sessions that were not ended run out on the server, but for the client's own, which is ended. Threads that wait
        get an Error, and it waits until they have it. In a callback it does not wait: another thread closes."""
        if self._handle.alive and self._calls.claim_end():
            self._calls.is_closing = True
            _run_outside(self._calls, self._close)

    def _close(self):
        self._calls.close()
        for watch in list(self._watches):
            watch.close()
        if self._shared_session is not None and self._shared_session.state != State.ENDED:
            try:
                self._shared_session.end()
            except Error:
                pass
        for session in list(self._sessions):
            session._destroy()
        self._calls.close()  # other threads may be closing some of these
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


weakref.finalize(Client, int)  # the first one registers what runs them all; what is registered after it runs before
atexit.register(_stop_calls)


def _ended(found):
    acquisition = _acquisition(found.acquisition.contents) if found.acquisition else None
    reason = library.lease_end_reason_text(found.reason).decode()
    return Ended(acquisition, reason, _text(found.by), found.revision, found.wall_ms)


def _change(found):
    acquisition = _acquisition(found.acquisition.contents) if found.acquisition else None
    ended = _ended(found.ended.contents) if found.ended else None
    return Change(found.revision, ChangeType(found.type), acquisition, ended)
