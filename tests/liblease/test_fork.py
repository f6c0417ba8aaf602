"""A child of fork() has copies of its parent's objects, and none of its locks."""
import os
import traceback

import pytest

import lease


def run_in_child(function):
    """Calls it in a child of fork(); gives the child's exit code, 0 when it returned."""
    process_id = os.fork()
    if process_id == 0:
        code = 1
        try:
            function()
            code = 0
        except SystemExit as error:
            code = error.code
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process_id, 0)[1])


def check_parent_has_it(server, name, hold):
    assert hold.valid_for > 0
    assert hold.session.state == lease.State.VALID
    with lease.Client(server.endpoint) as other, pytest.raises(lease.Busy):
        other.lock(name, wait=0)
    hold.session.renew()  # the connection is whole


def test_a_child_that_leaves_the_block_releases_nothing(any_server, prefix):
    with lease.Client(any_server.endpoint) as client:
        hold = client.lock(prefix)

        def leave():
            with hold:
                raise SystemExit(7)

        def fall_through():
            with client, hold.session, hold:
                pass

        assert run_in_child(leave) == 7
        check_parent_has_it(any_server, prefix, hold)
        assert run_in_child(fall_through) == 0
        check_parent_has_it(any_server, prefix, hold)
        hold.release()


def test_a_child_is_refused_and_nothing_is_valid_there(leased_server, prefix):
    with lease.Client(leased_server.endpoint) as client, client.register(prefix, "127.0.0.1", 1) as registration:
        hold = client.lock(prefix)
        calls = [
            hold.session.renew, client.connect, registration.deregister,
            lambda: client.lock("another"), lambda: hold.session.acquire("another", value="v"),
            lambda: client.resource(prefix), lambda: client.observe(prefix, print), lambda: client.discover(prefix),
            lambda: client.service(prefix), lambda: client.fence_check(prefix, 1), client.session,
            hold.release, hold.session.end,
        ]  # fmt: skip

        def check():
            for call in calls:
                with pytest.raises(lease.Error, match="belongs to the process that opened it") as caught:
                    call()
                assert caught.value.status == lease.Status.INVALID
            assert hold.valid_for == 0
            assert not registration.is_valid

        assert run_in_child(check) == 0
        check_parent_has_it(leased_server, prefix, hold)
        hold.release()


def test_a_child_can_open_a_client_of_its_own(leased_server, prefix):
    with lease.Client(leased_server.endpoint) as client, client.lock(prefix):

        def check():
            with lease.Client(leased_server.endpoint) as own, own.lock(f"{prefix}-child") as hold:
                assert hold.valid_for > 0
                assert own.resource(prefix).holders

        assert run_in_child(check) == 0


def test_a_child_sees_the_states_of_what_it_inherited(leased_server, prefix):
    with lease.Client(leased_server.endpoint) as client:
        session = client.session()
        pending = session.acquire_start(lease.wants(prefix))
        hold = pending.finish()

        def check():
            assert session.state == lease.State.LOST
            assert session.valid_for == 0
            session._destroy()
            client.close()

        assert run_in_child(check) == 0
        check_parent_has_it(leased_server, prefix, hold)
        session.end()
