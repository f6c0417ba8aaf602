/* Users and roles from outside: requests of etcd's Auth service, changes in the log, the part of a
 * snapshot, tokens. The first byte chooses. What is accepted can be applied, and comes back as the
 * same bytes. */
#include "core/auth.h"
#include "doors/etcd/etcd_auth_request.h"
#include "server/auth_token.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_change(struct auth *auth, const struct auth_change *change) {
    if (auth_change_check(change) == STATUS_OK) {
        (void)auth_apply(auth, change);
        auth_validate(auth);
    }
}

static void try_request(struct auth *auth, enum auth_action action, struct bytes message) {
    struct etcd_auth_request request;
    if (etcd_auth_request(action, message, &request) != NULL) {
        return;
    }
    struct auth_change change = {.action = action,
                                 .user = request.user,
                                 .role = request.role,
                                 .password_hash = request.password,
                                 .permission = request.permission};
    try_change(auth, &change);
}

static void try_log(struct auth *auth, struct bytes bytes) {
    struct reader reader;
    struct auth_change change;
    reader_init(&reader, bytes);
    while (reader_left(&reader) > 0) {
        size_t start = reader.position;
        auth_change_decode(&reader, &change);
        if (reader.failed) {
            return;
        }
        struct buffer again;
        buffer_init(&again);
        auth_change_encode(&again, &change);
        assert(again.size <= reader.position - start); /* a number may be written longer */
        buffer_clear(&again);
        try_change(auth, &change);
    }
}

static void try_snapshot(struct auth *auth, struct bytes bytes) {
    struct reader reader;
    reader_init(&reader, bytes);
    if (auth_decode(auth, &reader) != STATUS_OK) {
        return;
    }
    auth_validate(auth);
    struct buffer again;
    buffer_init(&again);
    auth_encode(auth, &again);
    assert(again.size <= reader.position);
    struct auth *second = auth_create();
    reader_init(&reader, bytes_of(again.data, again.size));
    enum status status = auth_decode(second, &reader);
    assert(status == STATUS_OK);
    auth_destroy(second);
    buffer_clear(&again);
}

static void try_token(struct bytes text) {
    static const uint8_t key[AUTH_TOKEN_KEY_SIZE] = {1};
    struct auth_token token;
    (void)auth_token_read(text, &token);
    bool is_good = auth_token_verify(text, bytes_of(key, sizeof key), bytes_from_text("$y$x"));
    assert(!is_good);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct bytes rest = bytes_of(data + 1, size - 1);
    struct auth *auth = auth_create();
    uint8_t choice = data[0] % 16;
    if (choice >= AUTH_USER_ADD && choice <= AUTH_ROLE_REVOKE_PERMISSION) {
        try_request(auth, (enum auth_action)choice, rest);
    } else if (choice == 0) {
        try_log(auth, rest);
    } else if (choice == 1) {
        try_snapshot(auth, rest);
    } else {
        try_token(rest);
    }
    auth_destroy(auth);
    return 0;
}
