/*
 * Messages to subscribers, from inside of a run: PUBLISH, and keyspace events as far as the setting
 * notify-keyspace-events, which holds for all members, asks for them. A message is a key that is
 * put and deleted in one revision: every member with subscribers watches those keys, and nothing
 * stays.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_EVENTS_RULES_H
#define LEASED_DOORS_REDIS_REDIS_EVENTS_RULES_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redis_run;

/* Bits of the setting. */
enum redis_event_class {
    REDIS_EVENT_KEYSPACE = 1 << 0, /* K */
    REDIS_EVENT_KEYEVENT = 1 << 1, /* E */
    REDIS_EVENT_GENERIC = 1 << 2,  /* g */
    REDIS_EVENT_STRING = 1 << 3,   /* $ */
    REDIS_EVENT_LIST = 1 << 4,     /* l */
    REDIS_EVENT_SET = 1 << 5,      /* s */
    REDIS_EVENT_HASH = 1 << 6,     /* h */
    REDIS_EVENT_ZSET = 1 << 7,     /* z */
    REDIS_EVENT_EXPIRED = 1 << 8,  /* x */
    REDIS_EVENT_EVICTED = 1 << 9,  /* e */
    REDIS_EVENT_STREAM = 1 << 10,  /* t */
    REDIS_EVENT_MODULE = 1 << 11,  /* d */
    REDIS_EVENT_MISS = 1 << 12,    /* m */
    REDIS_EVENT_NEW = 1 << 13      /* n */
};

enum { REDIS_EVENTS_TEXT_SIZE = 24 };

/* The letters of the setting; false when one is unknown. */
bool redis_events_parse(struct bytes text, uint32_t *out_events);
/* As CONFIG GET writes it: "A" for all classes. Returns its size. */
size_t redis_events_text(uint32_t events, char out_text[REDIS_EVENTS_TEXT_SIZE]);

/* Whether events of a class are told to anybody. */
bool redis_events_wanted(struct redis_run *run, enum redis_event_class class);
/* Something happened to a key of the run's database. */
void redis_event(struct redis_run *run, enum redis_event_class class, const char *event,
                 struct bytes key);
/* The kind is 'p' or, of a sharded channel, 'q'. */
void redis_publish(struct redis_run *run, char kind, struct bytes channel, struct bytes message);

/* "__keyevent@0__:" and "__keyspace@0__:"; returns its size. */
enum { REDIS_EVENT_PREFIX_SIZE = 24 };
size_t redis_event_prefix(bool is_keyspace, unsigned db,
                          uint8_t out_prefix[REDIS_EVENT_PREFIX_SIZE]);

#endif
