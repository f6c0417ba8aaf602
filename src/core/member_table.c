#include "core/member_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct member_table {
    uint64_t token_hash;
    uint64_t version;
    size_t n;
    struct member members[MEMBERS_MAX]; /* by ascending id */
    size_t n_removed;
    uint64_t removed[MEMBERS_REMOVED_MAX]; /* oldest first */
};

struct member_table *member_table_create(void) {
    struct member_table *table = calloc(1, sizeof *table);
    if (table == NULL) {
        abort();
    }
    return table;
}

void member_table_destroy(struct member_table *table) {
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < table->n; i++) {
        free(table->members[i].texts);
    }
    free(table);
}

/* --- One member. --- */

static char *keep_text(char *at, struct bytes *text) {
    if (text->size > 0) {
        memcpy(at, text->data, text->size);
    }
    at[text->size] = '\0';
    *text = bytes_of(at, text->size);
    return at + text->size + 1;
}

/* Copies everything that the facts borrow. */
static void member_set(struct member *member, const struct member_facts *facts) {
    size_t size = facts->name.size + 1;
    for (size_t i = 0; i < facts->n_peer_urls; i++) {
        size += facts->peer_urls[i].size + 1;
    }
    for (size_t i = 0; i < facts->n_client_urls; i++) {
        size += facts->client_urls[i].size + 1;
    }
    struct member changed = {.facts = *facts, .texts = malloc(size)};
    if (changed.texts == NULL) {
        abort();
    }
    char *at = changed.texts;
    changed.name = at;
    at = keep_text(at, &changed.facts.name);
    for (size_t i = 0; i < facts->n_peer_urls; i++) {
        changed.peer_urls[i] = at;
        at = keep_text(at, &changed.facts.peer_urls[i]);
    }
    for (size_t i = 0; i < facts->n_client_urls; i++) {
        changed.client_urls[i] = at;
        at = keep_text(at, &changed.facts.client_urls[i]);
    }
    /* The facts may borrow from the very texts that are replaced. */
    free(member->texts);
    *member = changed;
}

/* --- Finding. --- */

size_t member_table_count(const struct member_table *table) {
    return table->n;
}

const struct member *member_table_at(const struct member_table *table, size_t i) {
    assert(i < table->n);
    return &table->members[i];
}

static struct member *find(const struct member_table *table, uint64_t id) {
    for (size_t i = 0; i < table->n; i++) {
        if (table->members[i].facts.id == id) {
            return (struct member *)&table->members[i];
        }
    }
    return NULL;
}

const struct member *member_table_find(const struct member_table *table, uint64_t id) {
    return find(table, id);
}

static bool has_url(const struct member_facts *facts, struct bytes url) {
    for (size_t i = 0; i < facts->n_peer_urls; i++) {
        if (bytes_equal(facts->peer_urls[i], url)) {
            return true;
        }
    }
    return false;
}

const struct member *member_table_by_urls(const struct member_table *table,
                                          const struct bytes *urls, size_t n) {
    for (size_t i = 0; i < table->n; i++) {
        const struct member_facts *facts = &table->members[i].facts;
        bool is_same = n > 0 && facts->n_peer_urls == n;
        for (size_t u = 0; u < n && is_same; u++) {
            is_same = has_url(facts, urls[u]);
        }
        if (is_same) {
            return &table->members[i];
        }
    }
    return NULL;
}

bool member_table_is_removed(const struct member_table *table, uint64_t id) {
    for (size_t i = 0; i < table->n_removed; i++) {
        if (table->removed[i] == id) {
            return true;
        }
    }
    return false;
}

static size_t count_role(const struct member_table *table, enum member_role role) {
    size_t n = 0;
    for (size_t i = 0; i < table->n; i++) {
        n += table->members[i].facts.role == role;
    }
    return n;
}

size_t member_table_voters(const struct member_table *table) {
    return count_role(table, MEMBER_VOTER);
}

uint64_t member_table_token_hash(const struct member_table *table) {
    return table->token_hash;
}

uint64_t member_table_version(const struct member_table *table) {
    return table->version;
}

/* --- Changing. --- */

/* True when a member other than this one has one of the URLs. */
static bool urls_are_taken(const struct member_table *table, const struct member_facts *facts) {
    for (size_t i = 0; i < table->n; i++) {
        if (table->members[i].facts.id == facts->id) {
            continue;
        }
        for (size_t u = 0; u < facts->n_peer_urls; u++) {
            if (has_url(&table->members[i].facts, facts->peer_urls[u])) {
                return true;
            }
        }
    }
    return false;
}

static void insert(struct member_table *table, const struct member_facts *facts) {
    size_t at = table->n;
    while (at > 0 && table->members[at - 1].facts.id > facts->id) {
        at--;
    }
    memmove(&table->members[at + 1], &table->members[at],
            (table->n - at) * sizeof table->members[0]);
    table->members[at] = (struct member){0};
    member_set(&table->members[at], facts);
    table->n++;
}

static enum status add(struct member_table *table, const struct member_facts *facts) {
    if (find(table, facts->id) != NULL || member_table_is_removed(table, facts->id)) {
        return STATUS_MEMBER_EXISTS;
    }
    if (facts->n_peer_urls == 0) {
        return STATUS_INVALID;
    }
    if (urls_are_taken(table, facts)) {
        return STATUS_PEER_URL_EXISTS;
    }
    if (facts->role == MEMBER_LEARNER && count_role(table, MEMBER_LEARNER) >= MEMBER_LEARNERS_MAX) {
        return STATUS_TOO_MANY_LEARNERS;
    }
    if (table->n == MEMBERS_MAX) {
        return STATUS_TOO_MANY_MEMBERS;
    }
    insert(table, facts);
    return STATUS_OK;
}

static enum status remove_member(struct member_table *table, struct member *member) {
    if (member->facts.role == MEMBER_VOTER && member_table_voters(table) == 1) {
        return STATUS_MEMBERS_NOT_ENOUGH;
    }
    if (table->n_removed == MEMBERS_REMOVED_MAX) {
        memmove(&table->removed[0], &table->removed[1],
                (MEMBERS_REMOVED_MAX - 1) * sizeof table->removed[0]);
        table->n_removed--;
    }
    table->removed[table->n_removed++] = member->facts.id;
    free(member->texts);
    size_t at = (size_t)(member - table->members);
    memmove(member, member + 1, (table->n - at - 1) * sizeof table->members[0]);
    table->n--;
    return STATUS_OK;
}

static enum status update(struct member_table *table, struct member *member,
                          const struct member_facts *facts) {
    if (facts->n_peer_urls == 0) {
        return STATUS_INVALID;
    }
    if (urls_are_taken(table, facts)) {
        return STATUS_PEER_URL_EXISTS;
    }
    struct member_facts changed = member->facts;
    changed.n_peer_urls = facts->n_peer_urls;
    memcpy(changed.peer_urls, facts->peer_urls, sizeof changed.peer_urls);
    member_set(member, &changed);
    return STATUS_OK;
}

static enum status promote(struct member *member) {
    if (member->facts.role != MEMBER_LEARNER) {
        return STATUS_MEMBER_NOT_LEARNER;
    }
    member->facts.role = MEMBER_VOTER;
    return STATUS_OK;
}

static enum status publish(struct member *member, const struct member_facts *facts) {
    /* One that has lost its disk is another member. */
    if (member->facts.data_dir_id != 0 && member->facts.data_dir_id != facts->data_dir_id) {
        return STATUS_MEMBER_EXISTS;
    }
    struct member_facts changed = member->facts;
    changed.data_dir_id = facts->data_dir_id;
    changed.is_started = true;
    changed.name = facts->name;
    changed.n_client_urls = facts->n_client_urls;
    memcpy(changed.client_urls, facts->client_urls, sizeof changed.client_urls);
    member_set(member, &changed);
    return STATUS_OK;
}

static enum status change(struct member_table *table, enum member_action action,
                          const struct member_facts *facts) {
    if (action == MEMBER_ADD) {
        return add(table, facts);
    }
    struct member *member = find(table, facts->id);
    if (member == NULL) {
        return STATUS_MEMBER_NOT_FOUND;
    }
    switch (action) {
    case MEMBER_REMOVE:
        return remove_member(table, member);
    case MEMBER_UPDATE:
        return update(table, member, facts);
    case MEMBER_PROMOTE:
        return promote(member);
    case MEMBER_PUBLISH:
        return publish(member, facts);
    case MEMBER_ADD:
        break;
    }
    return STATUS_INVALID;
}

enum status member_table_change(struct member_table *table, enum member_action action,
                                const struct member_facts *facts) {
    enum status status = change(table, action, facts);
    table->version += status == STATUS_OK;
    return status;
}

static bool can_begin_with(const struct member_facts *members, size_t n) {
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (members[i].id == members[j].id) {
                return false;
            }
        }
        if (members[i].n_peer_urls == 0 || members[i].role != MEMBER_VOTER) {
            return false;
        }
    }
    return n > 0 && n <= MEMBERS_MAX;
}

enum status member_table_begin(struct member_table *table, uint64_t token_hash,
                               const struct member_facts *members, size_t n) {
    if (table->n > 0) {
        return STATUS_OK;
    }
    if (!can_begin_with(members, n)) {
        return STATUS_INVALID;
    }
    for (size_t i = 0; i < n; i++) {
        insert(table, &members[i]);
    }
    table->token_hash = token_hash;
    table->version++;
    return STATUS_OK;
}

void member_table_succeed(struct member_table *table, struct member_table *before) {
    table->version = before->version + 1;
    member_table_destroy(before);
}

/* --- Snapshots. --- */

void member_table_encode(const struct member_table *table, struct buffer *buffer) {
    buffer_put_u64(buffer, table->token_hash);
    buffer_put_varint(buffer, table->n);
    for (size_t i = 0; i < table->n; i++) {
        member_facts_encode(buffer, &table->members[i].facts);
    }
    buffer_put_varint(buffer, table->n_removed);
    for (size_t i = 0; i < table->n_removed; i++) {
        buffer_put_u64(buffer, table->removed[i]);
    }
}

enum status member_table_decode(struct member_table *table, struct reader *reader) {
    assert(table->n == 0);
    table->token_hash = reader_get_u64(reader);
    uint64_t n = reader_get_varint(reader);
    if (reader->failed || n > MEMBERS_MAX) {
        return STATUS_CORRUPT;
    }
    for (uint64_t i = 0; i < n; i++) {
        struct member_facts facts;
        member_facts_decode(reader, &facts);
        bool is_good = !reader->failed && facts.n_peer_urls > 0 &&
                       (i == 0 || facts.id > table->members[i - 1].facts.id);
        if (!is_good) {
            return STATUS_CORRUPT;
        }
        insert(table, &facts);
    }
    uint64_t n_removed = reader_get_varint(reader);
    if (reader->failed || n_removed > MEMBERS_REMOVED_MAX) {
        return STATUS_CORRUPT;
    }
    for (uint64_t i = 0; i < n_removed; i++) {
        uint64_t id = reader_get_u64(reader);
        if (reader->failed || id == 0 || find(table, id) != NULL) {
            return STATUS_CORRUPT;
        }
        table->removed[table->n_removed++] = id;
    }
    table->version++;
    return STATUS_OK;
}
