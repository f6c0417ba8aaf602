#include "doors/redis/redis_events_rules.h"

#include "doors/redis/redis_run_rules.h"

#include <string.h>

static const char letters[] = "KEg$lshzxetdmn";
/* "A": all but keyspace, keyevent, misses and new keys. */
enum { ALL = 0xffc };

bool redis_events_parse(struct bytes text, uint32_t *out_events) {
    uint32_t events = 0;
    for (size_t i = 0; i < text.size; i++) {
        const char *at = text.data[i] == 0 ? NULL : strchr(letters, text.data[i]);
        if (text.data[i] == 'A') {
            events |= ALL;
        } else if (at != NULL) {
            events |= UINT32_C(1) << (at - letters);
        } else {
            return false;
        }
    }
    *out_events = events;
    return true;
}

size_t redis_events_text(uint32_t events, char out_text[REDIS_EVENTS_TEXT_SIZE]) {
    /* Redis writes the classes first, then K and E. */
    static const char order[] = "g$lshzxetdKEmn";
    size_t size = 0;
    if ((events & ALL) == ALL) {
        out_text[size++] = 'A';
    }
    for (size_t i = 0; i < sizeof order - 1; i++) {
        uint32_t bit = UINT32_C(1) << (strchr(letters, order[i]) - letters);
        if ((events & bit) != 0 && ((bit & ALL) == 0 || (events & ALL) != ALL)) {
            out_text[size++] = order[i];
        }
    }
    return size;
}

bool redis_events_wanted(struct redis_run *run, enum redis_event_class class) {
    if (!run->knows_events) {
        const struct record *record = run->store->get(run->context, KEY_SPACE_REDIS_RECORDS,
                                                      bytes_from_text("cnotify-keyspace-events"));
        run->knows_events = true;
        if (record != NULL) {
            (void)redis_events_parse(record_value(record), &run->events);
        }
    }
    return (run->events & (REDIS_EVENT_KEYSPACE | REDIS_EVENT_KEYEVENT)) != 0 &&
           (run->events & class) != 0;
}

size_t redis_event_prefix(bool is_keyspace, unsigned db,
                          uint8_t out_prefix[REDIS_EVENT_PREFIX_SIZE]) {
    size_t size = 11;
    memcpy(out_prefix, is_keyspace ? "__keyspace@" : "__keyevent@", size);
    if (db >= 10) {
        out_prefix[size++] = (uint8_t)('0' + db / 10);
    }
    out_prefix[size++] = (uint8_t)('0' + db % 10);
    memcpy(out_prefix + size, "__:", 3);
    return size + 3;
}

void redis_publish(struct redis_run *run, char kind, struct bytes channel, struct bytes message) {
    struct bytes key = redis_key_record(run->arena, kind, channel);
    run->store->put(run->context, KEY_SPACE_REDIS_RECORDS, key, message, 0);
    run->store->delete (run->context, KEY_SPACE_REDIS_RECORDS, key);
}

static void tell(struct redis_run *run, bool is_keyspace, struct bytes subject,
                 struct bytes message) {
    uint8_t *channel = arena_alloc(run->arena, REDIS_EVENT_PREFIX_SIZE + subject.size);
    size_t size = redis_event_prefix(is_keyspace, run->db, channel);
    if (subject.size > 0) {
        memcpy(channel + size, subject.data, subject.size);
    }
    redis_publish(run, 'p', bytes_of(channel, size + subject.size), message);
}

void redis_event(struct redis_run *run, enum redis_event_class class, const char *event,
                 struct bytes key) {
    if (!redis_events_wanted(run, class)) {
        return;
    }
    if ((run->events & REDIS_EVENT_KEYSPACE) != 0) {
        tell(run, true, key, bytes_from_text(event));
    }
    if ((run->events & REDIS_EVENT_KEYEVENT) != 0) {
        tell(run, false, bytes_from_text(event), key);
    }
}
