#include "server/identity.h"

#include "base/crc32.h"
#include "core/member.h"
#include "core/member_id.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Missing in the file of a member that its cluster began with. */
static const char joined_line[] = "joined\n";

static_assert((int)OPTIONS_MEMBERS_MAX <= (int)MEMBERS_MAX, "so many ids make a cluster's");
static_assert((int)URL_LIST_MAX <= (int)MEMBER_URLS_MAX, "so many URLs make a member's id");

uint64_t identity_member_id(const char *token, const struct url_list *peer_urls) {
    struct bytes urls[URL_LIST_MAX];
    for (size_t i = 0; i < peer_urls->n; i++) {
        urls[i] = bytes_from_text(peer_urls->texts[i]);
    }
    return member_id_derive(urls, peer_urls->n, bytes_from_text(token));
}

/* --- Ids of data directories that earlier releases made. --- */

static const uint64_t HASH_START = UINT64_C(0xcbf29ce484222325);

/* FNV-1a, then a mix of all bits. */
static uint64_t hash_text(uint64_t hash, const char *text) {
    /* The closing zero is hashed too, so that "a","bc" and "ab","c" differ. */
    for (size_t i = 0; i <= strlen(text); i++) {
        hash = (hash ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t hash_finish(uint64_t hash) {
    hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ (hash >> 27)) * UINT64_C(0x94d049bb133111eb);
    hash ^= hash >> 31;
    return hash == 0 ? 1 : hash;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

uint64_t identity_legacy_member_id(const char *token, const struct url_list *peer_urls) {
    const char *sorted[URL_LIST_MAX];
    memcpy(sorted, peer_urls->texts, peer_urls->n * sizeof sorted[0]);
    qsort(sorted, peer_urls->n, sizeof sorted[0], compare_texts);
    uint64_t hash = hash_text(HASH_START, token);
    for (size_t i = 0; i < peer_urls->n; i++) {
        hash = hash_text(hash, sorted[i]);
    }
    return hash_finish(hash);
}

static int compare_ids(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

static uint64_t legacy_cluster_id(const char *token, const uint64_t *member_ids, size_t n) {
    uint64_t sorted[OPTIONS_MEMBERS_MAX];
    assert(n <= OPTIONS_MEMBERS_MAX);
    memcpy(sorted, member_ids, n * sizeof sorted[0]);
    qsort(sorted, n, sizeof sorted[0], compare_ids);
    uint64_t hash = hash_text(HASH_START, token);
    for (size_t i = 0; i < n; i++) {
        char member[32];
        snprintf(member, sizeof member, "%016" PRIx64, sorted[i]);
        hash = hash_text(hash, member);
    }
    return hash_finish(hash);
}

/* --- Both. --- */

static void make(struct identity *identity, const struct options *options, bool is_legacy) {
    const char *token = options->initial_cluster_token;
    uint64_t (*member_id)(const char *, const struct url_list *) =
        is_legacy ? identity_legacy_member_id : identity_member_id;
    memset(identity, 0, sizeof *identity);
    identity->member_id = member_id(token, &options->initial_advertise_peer_urls);
    uint64_t ids[OPTIONS_MEMBERS_MAX] = {identity->member_id};
    for (size_t i = 0; i < options->n_members; i++) {
        ids[i] = member_id(token, &options->members[i].peer_urls);
    }
    size_t n = options->n_members > 0 ? options->n_members : 1;
    identity->cluster_id =
        is_legacy ? legacy_cluster_id(token, ids, n) : member_id_of_cluster(ids, n);
    assert(strlen(options->name) <= OPTIONS_NAME_SIZE_MAX);
    memcpy(identity->name, options->name, strlen(options->name) + 1);
}

void identity_make(struct identity *identity, const struct options *options) {
    make(identity, options, false);
}

void identity_make_legacy(struct identity *identity, const struct options *options) {
    make(identity, options, true);
}

bool identity_is_legacy(const struct identity *identity, const struct options *options) {
    struct identity legacy;
    identity_make_legacy(&legacy, options);
    return identity->member_id == legacy.member_id || identity->cluster_id == legacy.cluster_id;
}

size_t identity_encode(const struct identity *identity, char out_text[IDENTITY_TEXT_SIZE_MAX]) {
    int size =
        snprintf(out_text, IDENTITY_TEXT_SIZE_MAX,
                 "leased-identity 1\ncluster %016" PRIx64 "\nmember %016" PRIx64 "\nname %s\n%s",
                 identity->cluster_id, identity->member_id, identity->name,
                 identity->is_joined ? joined_line : "");
    assert(size < IDENTITY_TEXT_SIZE_MAX);
    /* The word is that of release 0.1, whose directories are read. */
    if (identity->data_dir_id != 0) {
        size += snprintf(out_text + size, (size_t)(IDENTITY_TEXT_SIZE_MAX - size),
                         "birth %016" PRIx64 "\n", identity->data_dir_id);
        assert(size < IDENTITY_TEXT_SIZE_MAX);
    }
    size += snprintf(out_text + size, (size_t)(IDENTITY_TEXT_SIZE_MAX - size),
                     "checksum %08" PRIx32 "\n", crc32c(0, out_text, (size_t)size));
    assert(size < IDENTITY_TEXT_SIZE_MAX);
    return (size_t)size;
}

enum status identity_decode(struct bytes text, struct identity *out_identity) {
    char copy[IDENTITY_TEXT_SIZE_MAX];
    if (text.size >= sizeof copy || memchr(text.data, '\0', text.size) != NULL) {
        return STATUS_CORRUPT;
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';

    struct identity identity;
    memset(&identity, 0, sizeof identity);
    int at_name = 0;
    if (sscanf(copy, "leased-identity 1\ncluster %16" SCNx64 "\nmember %16" SCNx64 "\nname%n",
               &identity.cluster_id, &identity.member_id, &at_name) != 2 ||
        at_name == 0 || copy[at_name] != ' ') {
        return STATUS_CORRUPT;
    }
    const char *name = copy + at_name + 1;
    size_t name_size = strcspn(name, "\n");
    if (name_size == 0 || name_size > OPTIONS_NAME_SIZE_MAX) {
        return STATUS_CORRUPT;
    }
    memcpy(identity.name, name, name_size);
    const char *rest = name + name_size;
    rest += *rest == '\n';
    identity.is_joined = strncmp(rest, joined_line, strlen(joined_line)) == 0;
    rest += identity.is_joined ? strlen(joined_line) : 0;
    if (sscanf(rest, "birth %16" SCNx64, &identity.data_dir_id) != 1) {
        identity.data_dir_id = 0;
    }

    /* What was read must give the very bytes that were written, checksum and all. */
    char again[IDENTITY_TEXT_SIZE_MAX];
    if (!bytes_equal(bytes_of(again, identity_encode(&identity, again)), text) ||
        identity.cluster_id == 0 || identity.member_id == 0) {
        return STATUS_CORRUPT;
    }
    *out_identity = identity;
    return STATUS_OK;
}
