#include "doors/etcd/etcd_auth_request.h"

#include "base/pb_reader.h"

#include <stddef.h>

/* authpb.Permission.Type */
enum { PERMISSION_READ = 0, PERMISSION_WRITE = 1, PERMISSION_READ_WRITE = 2 };

uint64_t etcd_auth_right_number(enum right right) {
    switch (right) {
    case RIGHT_READ:
        return PERMISSION_READ;
    case RIGHT_WRITE:
        return PERMISSION_WRITE;
    case RIGHT_READ_WRITE:
        break;
    }
    return PERMISSION_READ_WRITE;
}

static enum right right_of(int32_t number) {
    switch (number) {
    case PERMISSION_READ:
        return RIGHT_READ;
    case PERMISSION_WRITE:
        return RIGHT_WRITE;
    case PERMISSION_READ_WRITE:
        return RIGHT_READ_WRITE;
    default:
        return (enum right)0; /* refused as not given */
    }
}

static bool read_options(struct bytes message, bool *out_no_password) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            *out_no_password = pb_reader_bool(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static bool read_permission(struct bytes message, struct permission *permission) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    permission->right = RIGHT_READ;
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            permission->right = right_of(pb_reader_enum(&reader));
            break;
        case 2:
            permission->range.key = pb_reader_bytes(&reader);
            break;
        case 3:
            permission->range.range_end = pb_reader_bytes(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

/* What a field of text means for an action; NULL: nothing. */
static struct bytes *text_at(enum auth_action action, uint32_t field,
                             struct etcd_auth_request *request) {
    bool is_of_role = action >= AUTH_ROLE_ADD;
    switch (field) {
    case 1:
        return is_of_role ? &request->role : &request->user;
    case 2:
        if (action == AUTH_USER_ADD || action == AUTH_USER_SET_PASSWORD) {
            return &request->password;
        }
        if (action == AUTH_USER_GRANT_ROLE || action == AUTH_USER_REVOKE_ROLE) {
            return &request->role;
        }
        return action == AUTH_ROLE_REVOKE_PERMISSION ? &request->permission.range.key : NULL;
    case 3:
        return action == AUTH_ROLE_REVOKE_PERMISSION ? &request->permission.range.range_end : NULL;
    default:
        return NULL;
    }
}

const struct etcd_error *etcd_auth_request(enum auth_action action, struct bytes message,
                                           struct etcd_auth_request *out_request) {
    struct etcd_auth_request request = {.permission.range.space = KEY_SPACE_ETCD};
    struct pb_reader reader;
    bool is_good = true;
    pb_reader_init(&reader, message);
    while (is_good && pb_reader_next(&reader)) {
        struct bytes *text = text_at(action, reader.field, &request);
        if (text != NULL) {
            *text = pb_reader_bytes(&reader);
        } else if (action == AUTH_USER_ADD && reader.field == 3) {
            is_good = read_options(pb_reader_bytes(&reader), &request.no_password);
        } else if (action == AUTH_ROLE_GRANT_PERMISSION && reader.field == 2) {
            is_good = read_permission(pb_reader_bytes(&reader), &request.permission);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || !is_good) {
        return &etcd_error_malformed;
    }
    *out_request = request;
    return NULL;
}
