/* Requests of the Lease and Maintenance services. The first byte chooses the request. */
#include "core/state_machine.h"
#include "doors/etcd/etcd_request.h"
#include "proto/etcd.pb-c.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A grant that was accepted can be carried out, whatever its numbers. */
static void try_grant(struct bytes message) {
    struct command command;
    if (etcd_request_grant(message, &command) != NULL) {
        return;
    }
    assert(command.grant.ttl_ms >= ETCD_TTL_SECONDS_MIN * 1000);
    assert(command.grant.ttl_ms <= LEASE_TTL_MS_MAX);
    Etcdserverpb__LeaseGrantRequest *other =
        etcdserverpb__lease_grant_request__unpack(NULL, message.size, message.data);
    if (other != NULL) {
        assert(other->id == command.grant.id);
        etcdserverpb__lease_grant_request__free_unpacked(other, NULL);
    }
    if (command.grant.id == 0) {
        command.grant.id = 1; /* the service chooses */
    }
    command.grant.owner = KEY_SPACE_ETCD; /* as applying it does */
    struct lease_table *leases = lease_table_create(NULL);
    lease_table_lead(leases, 1);
    assert(lease_table_grant(leases, &command.grant, 1) == STATUS_OK);
    int64_t remaining_ms;
    assert(lease_table_remaining(leases, command.grant.id, 1, &remaining_ms) == STATUS_OK);
    assert(remaining_ms >= command.grant.ttl_ms);
    lease_table_validate(leases);
    lease_table_destroy(leases);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct bytes message = bytes_of(data + 1, size - 1);
    struct command command;
    struct etcd_time_to_live_request time_to_live;
    struct etcd_alarm_request alarm;
    uint64_t number;
    switch (data[0] % 5) {
    case 0:
        try_grant(message);
        break;
    case 1:
        if (etcd_request_revoke(message, &command) == NULL) {
            assert(command.type == COMMAND_LEASE_REVOKE);
        }
        break;
    case 2:
        (void)etcd_request_time_to_live(message, &time_to_live);
        break;
    case 3:
        if (etcd_request_alarm(message, &alarm) == NULL) {
            assert(alarm.alarm <= ALARM_CORRUPT);
        }
        break;
    default:
        (void)etcd_request_number(message, &number);
    }
    return 0;
}
