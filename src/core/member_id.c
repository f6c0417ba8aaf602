#include "core/member_id.h"

#include "base/buffer.h"
#include "base/sha1.h"
#include "core/member.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* 0 stands for no member and no cluster everywhere. */
static uint64_t id_of(struct bytes derived_from) {
    uint64_t id = sha1_prefix(derived_from);
    return id == 0 ? 1 : id;
}

static int compare_urls(const void *a, const void *b) {
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

uint64_t member_id_derive(const struct bytes *peer_urls, size_t n, struct bytes suffix) {
    struct bytes sorted[MEMBER_URLS_MAX];
    assert(n <= MEMBER_URLS_MAX);
    memcpy(sorted, peer_urls, n * sizeof sorted[0]);
    qsort(sorted, n, sizeof sorted[0], compare_urls);
    struct buffer text;
    buffer_init(&text);
    for (size_t i = 0; i < n; i++) {
        buffer_append(&text, sorted[i].data, sorted[i].size);
    }
    buffer_append(&text, suffix.data, suffix.size);
    uint64_t id = id_of(bytes_of(text.data, text.size));
    buffer_clear(&text);
    return id;
}

static int compare_ids(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

uint64_t member_id_of_cluster(const uint64_t *member_ids, size_t n) {
    uint64_t sorted[MEMBERS_MAX];
    uint8_t text[MEMBERS_MAX * sizeof sorted[0]];
    assert(n <= MEMBERS_MAX);
    memcpy(sorted, member_ids, n * sizeof sorted[0]);
    qsort(sorted, n, sizeof sorted[0], compare_ids);
    for (size_t i = 0; i < 8 * n; i++) {
        text[i] = (uint8_t)(sorted[i / 8] >> (56 - 8 * (i % 8)));
    }
    return id_of(bytes_of(text, 8 * n));
}
