#include "core/member.h"

#include <string.h>

enum { MEMBER_IS_LEARNER = 1, MEMBER_IS_STARTED = 2 };

static bool text_is_good(struct bytes text, size_t size_max) {
    return text.size <= size_max && (text.size == 0 || memchr(text.data, '\0', text.size) == NULL);
}

static bool urls_are_good(const struct bytes *urls, size_t n) {
    if (n > MEMBER_URLS_MAX) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (urls[i].size == 0 || !text_is_good(urls[i], MEMBER_URL_SIZE_MAX)) {
            return false;
        }
    }
    return true;
}

bool member_facts_are_good(const struct member_facts *facts) {
    return facts->id != 0 && facts->role <= MEMBER_LEARNER &&
           text_is_good(facts->name, MEMBER_NAME_SIZE_MAX) &&
           urls_are_good(facts->peer_urls, facts->n_peer_urls) &&
           urls_are_good(facts->client_urls, facts->n_client_urls);
}

static void encode_urls(struct buffer *buffer, const struct bytes *urls, size_t n) {
    buffer_put_varint(buffer, n);
    for (size_t i = 0; i < n; i++) {
        buffer_put_bytes(buffer, urls[i]);
    }
}

static size_t decode_urls(struct reader *reader, struct bytes urls[MEMBER_URLS_MAX]) {
    uint64_t n = reader_get_varint(reader);
    if (n > MEMBER_URLS_MAX) {
        reader->failed = true;
        return 0;
    }
    for (uint64_t i = 0; i < n; i++) {
        urls[i] = reader_get_bytes(reader);
    }
    return (size_t)n;
}

void member_facts_encode(struct buffer *buffer, const struct member_facts *facts) {
    buffer_put_u64(buffer, facts->id);
    buffer_put_u8(buffer, (facts->role == MEMBER_LEARNER ? MEMBER_IS_LEARNER : 0) |
                              (facts->is_started ? MEMBER_IS_STARTED : 0));
    buffer_put_u64(buffer, facts->data_dir_id);
    buffer_put_bytes(buffer, facts->name);
    encode_urls(buffer, facts->peer_urls, facts->n_peer_urls);
    encode_urls(buffer, facts->client_urls, facts->n_client_urls);
}

void member_facts_decode(struct reader *reader, struct member_facts *out_facts) {
    struct member_facts facts = {.id = reader_get_u64(reader)};
    uint8_t flags = reader_get_u8(reader);
    facts.role = (flags & MEMBER_IS_LEARNER) != 0 ? MEMBER_LEARNER : MEMBER_VOTER;
    facts.is_started = (flags & MEMBER_IS_STARTED) != 0;
    facts.data_dir_id = reader_get_u64(reader);
    facts.name = reader_get_bytes(reader);
    facts.n_peer_urls = decode_urls(reader, facts.peer_urls);
    facts.n_client_urls = decode_urls(reader, facts.client_urls);
    if ((flags & ~(MEMBER_IS_LEARNER | MEMBER_IS_STARTED)) != 0 || reader->failed ||
        !member_facts_are_good(&facts)) {
        reader->failed = true;
        return;
    }
    *out_facts = facts;
}

void member_list_encode(struct buffer *buffer, const struct member_facts *members, size_t n) {
    buffer_put_varint(buffer, n);
    for (size_t i = 0; i < n; i++) {
        member_facts_encode(buffer, &members[i]);
    }
}

const struct member_facts *member_list_decode(struct reader *reader, struct arena *arena,
                                              size_t *out_n) {
    uint64_t n = reader_get_varint(reader);
    *out_n = 0;
    if (n > MEMBERS_MAX || reader->failed) {
        reader->failed = true;
        return NULL;
    }
    struct member_facts *members = arena_calloc(arena, (size_t)n, sizeof *members);
    for (uint64_t i = 0; i < n && !reader->failed; i++) {
        member_facts_decode(reader, &members[i]);
    }
    *out_n = reader->failed ? 0 : (size_t)n;
    return members;
}
