/*
 * Who belongs to the cluster, by ascending id: the part of the replicated state that raft's own
 * configuration is made to follow. An id that was removed never comes back.
 *
 * Empty until the cluster's first leader has written down the first members.
 */
#ifndef LEASED_CORE_MEMBER_TABLE_H
#define LEASED_CORE_MEMBER_TABLE_H

#include "base/status.h"
#include "core/member.h"

enum {
    /* etcd's limit: one member at a time is watched as it catches up. */
    MEMBER_LEARNERS_MAX = 1,
    /* Ids are made of 64 random bits: what has been forgotten after so many will not return. */
    MEMBERS_REMOVED_MAX = 1024
};

enum member_action {
    MEMBER_ADD = 1,
    MEMBER_REMOVE = 2,
    MEMBER_UPDATE = 3,  /* other peer URLs */
    MEMBER_PROMOTE = 4, /* a learner becomes a voter */
    MEMBER_PUBLISH = 5  /* it has started, is named so, and its clients reach it there */
};

/* As the table keeps it. Texts live until the member changes; lists of URLs end with NULL. */
struct member {
    struct member_facts facts; /* the same texts as below */
    const char *name;
    const char *peer_urls[MEMBER_URLS_MAX + 1];
    const char *client_urls[MEMBER_URLS_MAX + 1];
    char *texts;
};

struct member_table;

struct member_table *member_table_create(void);
void member_table_destroy(struct member_table *table);

/* The members that a cluster begins with. Of no effect when the table is not empty. Two with one id
 * or without a peer URL: STATUS_INVALID. */
enum status member_table_begin(struct member_table *table, uint64_t token_hash,
                               const struct member_facts *members, size_t n);

/* STATUS_MEMBER_EXISTS, _MEMBER_NOT_FOUND, _MEMBER_NOT_LEARNER, _PEER_URL_EXISTS,
 * _TOO_MANY_LEARNERS, _TOO_MANY_MEMBERS, _MEMBERS_NOT_ENOUGH. */
enum status member_table_change(struct member_table *table, enum member_action action,
                                const struct member_facts *facts);

size_t member_table_count(const struct member_table *table);
size_t member_table_voters(const struct member_table *table);
const struct member *member_table_at(const struct member_table *table, size_t i);
/* NULL: no such member. */
const struct member *member_table_find(const struct member_table *table, uint64_t id);
/* The member with all of these peer URLs, in whatever order. NULL: none. */
const struct member *member_table_by_urls(const struct member_table *table,
                                          const struct bytes *urls, size_t n);
bool member_table_is_removed(const struct member_table *table, uint64_t id);
/* Of the token that the cluster began with; 0: not known. */
uint64_t member_table_token_hash(const struct member_table *table);
/* Grows with every change; local, not replicated. */
uint64_t member_table_version(const struct member_table *table);

/* A table takes another one's place: its version goes on from there. The other one is gone. */
void member_table_succeed(struct member_table *table, struct member_table *before);

/* For snapshots. */
void member_table_encode(const struct member_table *table, struct buffer *buffer);
/* Into an empty table. STATUS_CORRUPT. */
enum status member_table_decode(struct member_table *table, struct reader *reader);

#endif
