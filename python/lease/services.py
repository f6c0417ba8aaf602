"""Instances of services: Client.register() and Client.service()."""
import collections
import ctypes
import enum
import functools
from ctypes import CFUNCTYPE, POINTER, Structure, byref, c_bool, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32
from ctypes import c_uint64, c_void_p

from lease._library import callback as made_callback
from lease._library import counted, library


class Pair(Structure):
    _fields_ = [("key", c_char_p), ("value", c_char_p)]


class Check(Structure):
    _fields_ = [
        ("id", c_char_p), ("kind", c_int), ("target", c_char_p), ("command", POINTER(c_char_p)), ("n_command", c_size_t),
        ("method", c_char_p), ("headers", POINTER(Pair)), ("n_headers", c_size_t), ("body_match", c_char_p),
        ("tls", c_bool), ("skip_verification", c_bool), ("interval_ms", c_int64), ("timeout_ms", c_int64),
        ("ttl_ms", c_int64), ("rises", c_uint32), ("falls", c_uint32), ("deregister_after_ms", c_int64),
        ("health", c_int),
    ]  # fmt: skip


RegistrationCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)


class RegisterOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("service", c_char_p), ("id", c_char_p), ("address", c_char_p), ("port", c_uint32),
        ("tags", POINTER(c_char_p)), ("n_tags", c_size_t), ("metadata", POINTER(Pair)), ("n_metadata", c_size_t),
        ("zone", c_char_p), ("version", c_char_p), ("weight", c_int32), ("state", c_int), ("ttl_ms", c_int64),
        ("node", c_char_p), ("owner", c_char_p), ("checks", POINTER(Check)), ("n_checks", c_size_t),
        ("on_event", RegistrationCallback), ("context", c_void_p),
    ]  # fmt: skip


class CInstance(Structure):
    _fields_ = [
        ("service", c_char_p), ("id", c_char_p), ("address", c_char_p), ("port", c_uint32),
        ("tags", POINTER(c_char_p)), ("n_tags", c_size_t), ("metadata", POINTER(Pair)), ("n_metadata", c_size_t),
        ("zone", c_char_p), ("version", c_char_p), ("node", c_char_p), ("owner", c_char_p), ("weight", c_uint32),
        ("state", c_int), ("is_overridden", c_bool), ("health", c_int), ("is_serving", c_bool), ("is_kept", c_bool),
        ("is_expired", c_bool), ("ttl_ms", c_int64), ("token", c_int64), ("lease_id", c_int64), ("revision", c_int64),
        ("registered_wall_ms", c_int64),
    ]  # fmt: skip


class CSettings(Structure):
    _fields_ = [
        ("grace_ms", c_int64), ("guard_percent", c_uint32), ("guard_minimum", c_uint32), ("guard_window_ms", c_int64),
        ("guard_hold_ms", c_int64),
    ]  # fmt: skip


class CServiceInfo(Structure):
    _fields_ = [
        ("name", c_char_p), ("n_live", c_uint32), ("n_lost", c_uint32), ("is_guarded", c_bool),
        ("guarded_wall_ms", c_int64), ("n_guarded", c_uint64), ("settings", CSettings), ("revision", c_int64),
    ]  # fmt: skip


class InstanceList(Structure):
    _fields_ = [("items", POINTER(CInstance)), ("n_items", c_size_t), ("service", CServiceInfo), ("age_ms", c_int64)]


ServiceCallback = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)


class ServiceOptions(Structure):
    _fields_ = [
        ("size", c_size_t), ("service", c_char_p), ("zone", c_char_p), ("tags", POINTER(c_char_p)),
        ("n_tags", c_size_t), ("with_unhealthy", c_bool), ("picks_expired", c_bool), ("callback", ServiceCallback),
        ("context", c_void_p),
    ]  # fmt: skip


for _name, (_result, _arguments) in {
    "lease_register": (c_int, [c_void_p, POINTER(RegisterOptions), POINTER(c_void_p)]),
    "lease_registration_id": (c_char_p, [c_void_p]),
    "lease_registration_token": (c_int64, [c_void_p]),
    "lease_registration_is_valid": (c_bool, [c_void_p]),
    "lease_registration_set_state": (c_int, [c_void_p, c_int]),
    "lease_registration_report": (c_int, [c_void_p, c_char_p, c_int, c_char_p]),
    "lease_deregister": (c_int, [c_void_p, c_int64]),
    "lease_registration_destroy": (None, [c_void_p]),
    "lease_service_open": (c_int, [c_void_p, POINTER(ServiceOptions), POINTER(c_void_p)]),
    "lease_service_wait": (c_int, [c_void_p, c_int64]),
    "lease_service_instances": (c_int, [c_void_p, POINTER(POINTER(InstanceList))]),
    "lease_service_pick": (c_int, [c_void_p, POINTER(POINTER(CInstance))]),
    "lease_service_age_ms": (c_int64, [c_void_p]),
    "lease_service_close": (None, [c_void_p]),
}.items():
    getattr(library, _name).restype = _result
    getattr(library, _name).argtypes = _arguments


class InstanceState(enum.IntEnum):
    DEFAULT = 0
    STARTING = 1
    UP = 2
    DRAINING = 3
    OUT_OF_SERVICE = 4
    DOWN = 5


class Health(enum.IntEnum):
    PASSING = 0
    WARNING = 1
    CRITICAL = 2


class RegistrationEvent(enum.IntEnum):
    LATE = 1
    AGAIN = 2
    REPLACED = 3
    FAILED = 4


Instance = collections.namedtuple(
    "Instance",
    "service id address port tags metadata zone version weight state health serving kept expired ttl token revision",
)


def _instance(one):
    text = lambda value: value.decode(errors="replace")  # noqa: E731
    return Instance(
        text(one.service), text(one.id), text(one.address), one.port,
        tuple(text(one.tags[i]) for i in range(one.n_tags)),
        {text(one.metadata[i].key): text(one.metadata[i].value) for i in range(one.n_metadata)},
        text(one.zone), text(one.version), one.weight, InstanceState(one.state), Health(one.health), one.is_serving,
        one.is_kept, one.is_expired, None if one.ttl_ms < 0 else one.ttl_ms / 1000, one.token, one.revision,
    )  # fmt: skip


def texts(values):
    return (c_char_p * len(values))(*[value.encode() for value in values])


class Registration:
    """An instance of a service, renewed until it is closed. `on_event(event, reason)` is called from a thread of the
    library; after RegistrationEvent.REPLACED another process is in its place, and this one should stop."""

    def __init__(self, client, check, service, address, port=0, *, id=None, tags=(), metadata=None, zone=None,
                 version=None, weight=0, ttl=0, state=InstanceState.DEFAULT, checks=(), on_event=None):  # fmt: skip
        self._check, self._client, self._calls = check, client, client._calls
        encoded = lambda value: None if value is None else value.encode()  # noqa: E731
        pairs = [Pair(key.encode(), value.encode()) for key, value in (metadata or {}).items()]
        array, labels = (Pair * len(pairs))(*pairs), texts(tags)
        rows = (Check * len(checks))(*[Check(**each) for each in checks])
        callback = RegistrationCallback()
        if on_event is not None:
            def tell(_it, event, reason, _context):
                on_event(RegistrationEvent(event), reason.decode(errors="replace"))

            callback = made_callback(RegistrationCallback, client._calls, tell)
        options = RegisterOptions(
            ctypes.sizeof(RegisterOptions), encoded(service), encoded(id), encoded(address), port, labels, len(tags),
            array, len(pairs), encoded(zone), encoded(version), weight, state, int(ttl * 1000), None, None, rows,
            len(checks), callback, None,
        )  # fmt: skip
        start = functools.partial(library.lease_register, client._handle.value, byref(options))
        self._handle = client._open(self, start, library.lease_registration_destroy, callback)

    @property
    @counted
    def id(self):
        return library.lease_registration_id(self._handle.value).decode()

    @property
    @counted
    def token(self):
        return library.lease_registration_token(self._handle.value)

    @property
    @counted
    def is_valid(self):
        return library.lease_registration_is_valid(self._handle.value)

    @counted
    def set_state(self, state):
        self._check(library.lease_registration_set_state(self._handle.value, state))

    @counted
    def report(self, check, health, output=None):
        output = None if output is None else output.encode()
        self._check(library.lease_registration_report(self._handle.value, check.encode(), health, output))

    @counted
    def deregister(self, drain=0):
        self._check(library.lease_deregister(self._handle.value, int(drain * 1000)))

    def close(self):
        """Not renewed any more; it runs out on the server unless it was deregistered."""
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Service:
    """The instances of a service in memory, watched. `on_change(error or None)` is called from a thread of the library."""

    def __init__(self, client, check, name, *, zone=None, tags=(), with_unhealthy=False, picks_expired=False,
                 on_change=None):  # fmt: skip
        self._check, self._client, self._calls = check, client, client._calls
        labels = texts(tags)
        callback = ServiceCallback()
        if on_change is not None:
            def tell(_it, status, reason, _context):
                on_change(reason.decode(errors="replace") if status else None)

            callback = made_callback(ServiceCallback, client._calls, tell)
        options = ServiceOptions(
            ctypes.sizeof(ServiceOptions), name.encode(), None if zone is None else zone.encode(), labels, len(tags),
            with_unhealthy, picks_expired, callback, None,
        )  # fmt: skip
        start = functools.partial(library.lease_service_open, client._handle.value, byref(options))
        self._handle = client._open(self, start, library.lease_service_close, callback)

    @counted
    def wait(self, seconds=None):
        """Until it has its instances."""
        self._client._wait(library.lease_service_wait, self._handle, seconds)

    @counted
    def instances(self):
        """From memory, near ones first."""
        found = POINTER(InstanceList)()
        self._check(library.lease_service_instances(self._handle.value, byref(found)))
        try:
            return [_instance(found.contents.items[i]) for i in range(found.contents.n_items)]
        finally:
            library.lease_free(found)

    @counted
    def pick(self):
        """One that serves, at random by weight, near ones first."""
        found = POINTER(CInstance)()
        self._check(library.lease_service_pick(self._handle.value, byref(found)))
        try:
            return _instance(found.contents)
        finally:
            library.lease_free(found)

    @property
    @counted
    def age(self):
        """The instances are those of a moment at most so many seconds ago; None: it has none yet."""
        age_ms = library.lease_service_age_ms(self._handle.value)
        return age_ms / 1000 if age_ms >= 0 else None

    def close(self):
        self._handle.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
