"""A plugin of pytest, and a module: Debian 12's tooz 3.1 calls two libraries in a way that Debian's versions of them do not know.

Its etcd3gw driver gives `api_path` to a function of etcd3gw 2.0 that has no such argument, though the class behind it has; its
consul driver was written for python-consul2, where a token may be given to every call. Neither reaches a server without this.
"""
import inspect

import consul
import etcd3gw


def without_token(method):
    """The client has the token already."""
    if "token" in inspect.signature(method).parameters:
        return method
    return lambda *arguments, token=None, **named: method(*arguments, **named)


if "api_path" not in inspect.signature(etcd3gw.client).parameters:
    etcd3gw.client = etcd3gw.Etcd3Client
for name in ("create", "destroy", "renew"):
    setattr(consul.Consul.Session, name, without_token(getattr(consul.Consul.Session, name)))
