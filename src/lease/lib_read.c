#include "lease/lib_read.h"

#include <string.h>

const char *lib_read_text(struct arena *arena, struct bytes text) {
    char *copy = arena_alloc(arena, text.size + 1);
    if (text.size > 0) {
        memcpy(copy, text.data, text.size);
    }
    copy[text.size] = '\0';
    return copy;
}

const char *lib_read_text_field(struct arena *arena, struct pb_reader *reader) {
    return lib_read_text(arena, pb_reader_bytes(reader));
}

size_t lib_read_count(struct bytes message, uint32_t field) {
    struct pb_reader reader;
    size_t n = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        n += reader.field == field;
        pb_reader_skip(&reader);
    }
    return reader.failed || n > LIB_ITEMS_MAX ? SIZE_MAX : n;
}

bool lib_read_array(struct arena *arena, struct bytes message, uint32_t field, size_t item_size,
                    lib_read_item *read, struct lib_array *out) {
    size_t n = lib_read_count(message, field);
    if (n == SIZE_MAX) {
        return false;
    }
    uint8_t *items = arena_calloc(arena, n, item_size);
    size_t i = 0;
    bool is_well = true;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (is_well && pb_reader_next(&reader)) {
        if (reader.field == field) {
            struct bytes item = pb_reader_bytes(&reader);
            is_well = !reader.failed && read(arena, item, items + i++ * item_size);
        } else {
            pb_reader_skip(&reader);
        }
    }
    *out = (struct lib_array){.items = items, .n_items = n};
    return is_well && !reader.failed;
}

static bool read_text_item(struct arena *arena, struct bytes message, void *out) {
    *(const char **)out = lib_read_text(arena, message);
    return true;
}

bool lib_read_texts(struct arena *arena, struct bytes message, uint32_t field,
                    struct lib_array *out) {
    return lib_read_array(arena, message, field, sizeof(const char *), read_text_item, out);
}

uint32_t lib_read_uint32(struct pb_reader *reader) {
    uint64_t value = pb_reader_uint64(reader);
    return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

bool lib_read_header(struct bytes message, int64_t *out_revision) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 3) {
            *out_revision = pb_reader_int64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

/* ---- acquisitions ---- */

static bool read_want(struct arena *arena, struct bytes message, void *out) {
    struct lease_want *want = out;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            want->resource = lib_read_text_field(arena, &reader);
            break;
        case 2:
            want->mode = pb_reader_enum(&reader) == LEASE_SHARED ? LEASE_SHARED : LEASE_EXCLUSIVE;
            break;
        case 3:
            want->pool = lib_read_text_field(arena, &reader);
            break;
        case 4:
            want->slots = lib_read_uint32(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

/* SlotsOfPool, of which there is one for each pool: a name and its slots. */
struct pool_slots {
    const char *pool;
    struct lib_array slots;
};

static bool read_pool_slots(struct arena *arena, struct bytes message, void *out) {
    struct pool_slots *slots = out;
    struct pb_reader reader;
    slots->pool = "";
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            slots->pool = lib_read_text_field(arena, &reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed && lib_read_texts(arena, message, 2, &slots->slots);
}

static bool read_slots(struct arena *arena, struct bytes message, struct lease_acquisition *out) {
    struct lib_array pools;
    if (!lib_read_array(arena, message, 6, sizeof(struct pool_slots), read_pool_slots, &pools)) {
        return false;
    }
    const struct pool_slots *each = pools.items;
    size_t n = 0;
    for (size_t i = 0; i < pools.n_items; i++) {
        n += each[i].slots.n_items;
    }
    if (n > LIB_ITEMS_MAX) {
        return false;
    }
    struct lease_slot *slots = arena_calloc(arena, n, sizeof *slots);
    size_t at = 0;
    for (size_t i = 0; i < pools.n_items; i++) {
        const char *const *names = each[i].slots.items;
        for (size_t j = 0; j < each[i].slots.n_items; j++) {
            slots[at++] = (struct lease_slot){.pool = each[i].pool, .slot = names[j]};
        }
    }
    out->slots = slots;
    out->n_slots = n;
    return true;
}

static void read_acquisition_field(struct arena *arena, struct pb_reader *reader,
                                   struct lease_acquisition *out) {
    switch (reader->field) {
    case 1:
        out->id = pb_reader_int64(reader);
        break;
    case 2:
        out->session_id = pb_reader_int64(reader);
        break;
    case 3:
        out->stage = pb_reader_enum(reader) == LEASE_STAGE_ACQUIRED ? LEASE_STAGE_ACQUIRED
                                                                    : LEASE_STAGE_QUEUED;
        break;
    case 4:
        out->token = pb_reader_int64(reader);
        break;
    case 7:
        out->value = lib_read_text_field(arena, reader);
        break;
    case 8:
        out->owner = lib_read_text_field(arena, reader);
        break;
    case 9:
        out->hold_limit_ms = pb_reader_int64(reader);
        break;
    case 10:
        out->asked_wall_ms = pb_reader_int64(reader);
        break;
    case 11:
        out->acquired_wall_ms = pb_reader_int64(reader);
        break;
    case 12:
        out->request_id = lib_read_text_field(arena, reader);
        break;
    default:
        pb_reader_skip(reader);
    }
}

bool lib_read_acquisition(struct arena *arena, struct bytes message,
                          struct lease_acquisition *out) {
    struct lib_array wants;
    struct pb_reader reader;
    *out = (struct lease_acquisition){.value = "", .owner = "", .request_id = ""};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        read_acquisition_field(arena, &reader, out);
    }
    if (reader.failed || !read_slots(arena, message, out) ||
        !lib_read_array(arena, message, 5, sizeof(struct lease_want), read_want, &wants)) {
        return false;
    }
    out->wants = wants.items;
    out->n_wants = wants.n_items;
    return true;
}

static bool read_acquisition_item(struct arena *arena, struct bytes message, void *out) {
    return lib_read_acquisition(arena, message, out);
}

bool lib_read_acquisitions(struct arena *arena, struct bytes message, uint32_t field,
                           const struct lease_acquisition **out_items, size_t *out_n) {
    struct lib_array array;
    if (!lib_read_array(arena, message, field, sizeof(struct lease_acquisition),
                        read_acquisition_item, &array)) {
        return false;
    }
    *out_items = array.items;
    *out_n = array.n_items;
    return true;
}

/* ---- sessions ---- */

static void read_session_field(struct arena *arena, struct pb_reader *reader,
                               struct lease_session_info *out) {
    switch (reader->field) {
    case 1:
        out->id = pb_reader_int64(reader);
        break;
    case 2:
        out->owner = lib_read_text_field(arena, reader);
        break;
    case 3:
        out->ttl_ms = pb_reader_int64(reader);
        break;
    case 4:
        out->purpose = (enum lease_class)pb_reader_enum(reader);
        break;
    case 5:
        out->strategy = (enum lease_strategy)pb_reader_enum(reader);
        break;
    case 6:
        out->remaining_ms = pb_reader_int64(reader);
        break;
    case 7:
        out->created_revision = pb_reader_int64(reader);
        break;
    case 8:
        out->created_wall_ms = pb_reader_int64(reader);
        break;
    case 9:
        out->note = lib_read_text_field(arena, reader);
        break;
    case 10:
        out->parent_id = pb_reader_int64(reader);
        break;
    case 11:
        out->n_acquisitions = lib_read_uint32(reader);
        break;
    default:
        pb_reader_skip(reader);
    }
}

bool lib_read_session(struct arena *arena, struct bytes message, struct lease_session_info *out) {
    struct pb_reader reader;
    *out = (struct lease_session_info){.owner = "", .note = ""};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        read_session_field(arena, &reader, out);
    }
    if ((unsigned)out->purpose > LEASE_CLASS_CACHE) {
        out->purpose = LEASE_CLASS_NONE;
    }
    if ((unsigned)out->strategy >= LEASE_STRATEGY_NEVER ||
        out->strategy == LEASE_STRATEGY_DEFAULT) {
        out->strategy = LEASE_STRATEGY_NEVER; /* the protocol's NONE */
    }
    return !reader.failed;
}

/* ---- resources ---- */

bool lib_read_resource(struct arena *arena, struct bytes message, struct lease_resource *out) {
    struct pb_reader reader;
    *out = (struct lease_resource){.name = ""};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            out->name = lib_read_text_field(arena, &reader);
            break;
        case 3:
            out->n_waiting = lib_read_uint32(&reader);
            break;
        case 5:
            out->remaining_ms = pb_reader_int64(&reader);
            break;
        case 6:
            out->last_token = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed &&
           lib_read_acquisitions(arena, message, 2, &out->holders, &out->n_holders) &&
           lib_read_acquisitions(arena, message, 4, &out->first_waiting, &out->n_first_waiting);
}

/* ---- pools ---- */

static bool read_share(struct arena *arena, struct bytes message, void *out) {
    struct lease_share *share = out;
    struct pb_reader reader;
    share->owner = "";
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            share->owner = lib_read_text_field(arena, &reader);
        } else if (reader.field == 2) {
            share->weight = lib_read_uint32(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static bool read_slot_state(struct arena *arena, struct bytes message, void *out) {
    struct lease_slot_state *state = out;
    struct pb_reader reader;
    state->slot = "";
    state->owner = "";
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            state->slot = lib_read_text_field(arena, &reader);
            break;
        case 2:
            state->acquisition_id = pb_reader_int64(&reader);
            break;
        case 3:
            state->token = pb_reader_int64(&reader);
            break;
        case 4:
            state->owner = lib_read_text_field(arena, &reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static bool read_pool(struct arena *arena, struct bytes message, struct lease_pool *out) {
    struct lib_array slots;
    struct lib_array shares;
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            out->name = lib_read_text_field(arena, &reader);
        } else if (reader.field == 3) {
            out->hold_limit_ms = pb_reader_int64(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || !lib_read_texts(arena, message, 2, &slots) ||
        !lib_read_array(arena, message, 4, sizeof(struct lease_share), read_share, &shares)) {
        return false;
    }
    out->slots = slots.items;
    out->n_slots = slots.n_items;
    out->shares = shares.items;
    out->n_shares = shares.n_items;
    return true;
}

bool lib_read_pool_state(struct arena *arena, struct bytes message, struct lease_pool *out) {
    struct lib_array taken;
    struct pb_reader reader;
    bool is_well = true;
    *out = (struct lease_pool){.name = ""};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            is_well = read_pool(arena, pb_reader_bytes(&reader), out) && is_well;
        } else if (reader.field == 3) {
            out->n_waiting = lib_read_uint32(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || !is_well ||
        !lib_read_array(arena, message, 2, sizeof(struct lease_slot_state), read_slot_state,
                        &taken)) {
        return false;
    }
    out->taken = taken.items;
    out->n_taken = taken.n_items;
    return true;
}

/* ---- ends ---- */

bool lib_read_ended(struct arena *arena, struct bytes message, struct lease_ended *out) {
    struct pb_reader reader;
    bool is_well = true;
    *out = (struct lease_ended){.by = ""};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        struct lease_acquisition *acquisition;
        struct lease_session_info *session;
        switch (reader.field) {
        case 1:
            out->acquisition = acquisition = arena_alloc(arena, sizeof *acquisition);
            is_well &= lib_read_acquisition(arena, pb_reader_bytes(&reader), acquisition);
            break;
        case 2:
            out->session = session = arena_alloc(arena, sizeof *session);
            is_well &= lib_read_session(arena, pb_reader_bytes(&reader), session);
            break;
        case 3:
            out->reason = (enum lease_end_reason)pb_reader_enum(&reader);
            break;
        case 4:
            out->by = lib_read_text_field(arena, &reader);
            break;
        case 5:
            out->revision = pb_reader_int64(&reader);
            break;
        case 6:
            out->wall_ms = pb_reader_int64(&reader);
            break;
        case 7:
            out->last_renewal_before_ms = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return is_well && !reader.failed;
}
