#include "raft/vote_store.h"

#include "base/crc32.h"
#include "base/little_endian.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A slot: magic, version u32, sum u32 (of all of it, with zeros here), sequence u64, term u64, vote
 * u64, zeros; little-endian. The version keeps its place in every version. */
enum {
    SLOT_SIZE = 64,
    SLOT_VERSION = 1,
    AT_VERSION = 8,
    AT_SUM = 12,
    AT_SEQUENCE = 16,
    AT_TERM = 24,
    AT_VOTE = 32,
    N_SLOTS = 2
};

static const char magic[8] = {'l', 'e', 'a', 's', 'e', 'v', 'o', 't'};
static const char *const names[N_SLOTS] = {"meta.1", "meta.2"};
static const char *const new_names[N_SLOTS] = {"meta.1.new", "meta.2.new"};
static const char advice[] =
    "Nothing was changed. Without its term and vote this node could vote twice. Restore the data "
    "directory from a backup; on a member of a cluster, remove the member, delete its data "
    "directory "
    "and add it again.";

enum slot_state { SLOT_MISSING, SLOT_DAMAGED, SLOT_NEWER, SLOT_VALID };

struct slot {
    enum slot_state state;
    int file; /* -1: missing */
    uint64_t sequence;
    uint64_t term;
    uint64_t vote;
};

struct vote_store {
    struct raft_files files;
    struct slot slots[N_SLOTS];
    uint64_t sequence;
    uint64_t term;
    uint64_t vote;
    int counts; /* which slot was the newer one when it was opened */
    bool is_confirmed;
    int error;
};

static uint32_t slot_sum(const uint8_t bytes[SLOT_SIZE]) {
    uint8_t copy[SLOT_SIZE];
    memcpy(copy, bytes, SLOT_SIZE);
    little_endian_put_u32(copy + AT_SUM, 0);
    return crc32c(0, copy, SLOT_SIZE);
}

static void slot_encode(const struct vote_store *store, uint8_t out_bytes[SLOT_SIZE]) {
    memset(out_bytes, 0, SLOT_SIZE);
    memcpy(out_bytes, magic, sizeof magic);
    little_endian_put_u32(out_bytes + AT_VERSION, SLOT_VERSION);
    little_endian_put_u64(out_bytes + AT_SEQUENCE, store->sequence);
    little_endian_put_u64(out_bytes + AT_TERM, store->term);
    little_endian_put_u64(out_bytes + AT_VOTE, store->vote);
    little_endian_put_u32(out_bytes + AT_SUM, slot_sum(out_bytes));
}

static void slot_decode(struct slot *slot, const uint8_t bytes[SLOT_SIZE]) {
    slot->state = SLOT_DAMAGED;
    if (memcmp(bytes, magic, sizeof magic) != 0 ||
        little_endian_get_u32(bytes + AT_SUM) != slot_sum(bytes)) {
        return;
    }
    if (little_endian_get_u32(bytes + AT_VERSION) != SLOT_VERSION) {
        slot->state = SLOT_NEWER;
        return;
    }
    slot->state = SLOT_VALID;
    slot->sequence = little_endian_get_u64(bytes + AT_SEQUENCE);
    slot->term = little_endian_get_u64(bytes + AT_TERM);
    slot->vote = little_endian_get_u64(bytes + AT_VOTE);
}

static int slot_load(struct vote_store *store, int i) {
    const struct raft_files_calls *calls = store->files.calls;
    struct slot *slot = &store->slots[i];
    uint8_t bytes[SLOT_SIZE];
    size_t n = 0;
    int error = calls->open(store->files.data, names[i], RAFT_FILES_WRITE, &slot->file);
    if (error != 0) {
        slot->file = -1;
        slot->state = SLOT_MISSING;
        return error == ENOENT ? 0 : error;
    }
    error = calls->read(store->files.data, slot->file, 0, bytes, sizeof bytes, &n);
    if (error != 0) {
        return error;
    }
    slot->state = SLOT_DAMAGED;
    if (n == SLOT_SIZE) {
        slot_decode(slot, bytes);
    }
    return 0;
}

static int slot_write(struct vote_store *store, int file) {
    uint8_t bytes[SLOT_SIZE];
    slot_encode(store, bytes);
    struct iovec part = {.iov_base = bytes, .iov_len = sizeof bytes};
    int error = store->files.calls->write(store->files.data, file, 0, &part, 1);
    return error != 0 ? error : store->files.calls->sync(store->files.data, file);
}

/* Under another name until it is whole. The caller syncs the directory. */
static int slot_create(struct vote_store *store, int i) {
    const struct raft_files_calls *calls = store->files.calls;
    struct slot *slot = &store->slots[i];
    int error = calls->unlink(store->files.data, new_names[i]);
    if (error != 0 && error != ENOENT) {
        return error;
    }
    error = calls->open(store->files.data, new_names[i], RAFT_FILES_CREATE, &slot->file);
    if (error != 0) {
        slot->file = -1;
        return error;
    }
    error = slot_write(store, slot->file);
    return error != 0 ? error : calls->rename(store->files.data, new_names[i], names[i]);
}

static int slot_put(struct vote_store *store, int i) {
    return store->slots[i].file < 0 ? slot_create(store, i)
                                    : slot_write(store, store->slots[i].file);
}

static enum status refuse(enum status status, const char *what, char *out_error,
                          size_t error_size) {
    snprintf(out_error, error_size, "meta.1 and meta.2, which hold the term and the vote: %s",
             what);
    return status;
}

static enum status choose(struct vote_store *store, bool must_exist, int *out_counts,
                          char *out_error, size_t error_size) {
    const struct slot *slots = store->slots;
    char what[320];
    if (slots[0].state == SLOT_NEWER || slots[1].state == SLOT_NEWER) {
        return refuse(
            STATUS_UNSUPPORTED,
            "a newer version of leased wrote them. Nothing was changed. Start that version.",
            out_error, error_size);
    }
    if (slots[0].state == SLOT_MISSING && slots[1].state == SLOT_MISSING && !must_exist) {
        *out_counts = 1;
        return STATUS_OK;
    }
    if (slots[0].state != SLOT_VALID && slots[1].state != SLOT_VALID) {
        snprintf(what, sizeof what, "the first is %s, the second is %s. %s",
                 slots[0].state == SLOT_MISSING ? "missing" : "damaged",
                 slots[1].state == SLOT_MISSING ? "missing" : "damaged", advice);
        return refuse(STATUS_CORRUPT, what, out_error, error_size);
    }
    if (slots[0].state == SLOT_VALID && slots[1].state == SLOT_VALID &&
        slots[0].sequence == slots[1].sequence &&
        (slots[0].term != slots[1].term || slots[0].vote != slots[1].vote)) {
        snprintf(what, sizeof what, "they contradict each other. %s", advice);
        return refuse(STATUS_CORRUPT, what, out_error, error_size);
    }
    bool is_first = slots[1].state != SLOT_VALID ||
                    (slots[0].state == SLOT_VALID && slots[0].sequence > slots[1].sequence);
    *out_counts = is_first ? 0 : 1;
    return STATUS_OK;
}

static enum status open_slots(struct vote_store *store, bool must_exist, char *out_error,
                              size_t error_size) {
    int error = 0;
    int i;
    for (i = 0; i < N_SLOTS && error == 0; i++) {
        error = slot_load(store, i);
    }
    if (error != 0) {
        snprintf(out_error, error_size, "%s: %s", names[i - 1], strerror(error));
        return STATUS_IO;
    }
    int counts = 0;
    enum status status = choose(store, must_exist, &counts, out_error, error_size);
    if (status != STATUS_OK) {
        return status;
    }
    const struct slot *slot = &store->slots[counts];
    if (slot->state == SLOT_VALID) {
        store->sequence = slot->sequence;
        store->term = slot->term;
        store->vote = slot->vote;
    }
    store->counts = counts;
    return STATUS_OK;
}

enum status vote_store_open(const struct raft_files *files, bool must_exist,
                            struct vote_store **out_store, char *out_error, size_t error_size) {
    struct vote_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        abort();
    }
    store->files = *files;
    store->slots[0].file = -1;
    store->slots[1].file = -1;
    enum status status = open_slots(store, must_exist, out_error, error_size);
    if (status == STATUS_OK) {
        *out_store = store;
    } else {
        vote_store_close(store);
    }
    return status;
}

/* They are written even if they say the same already: a process that was killed, or whose last sync
 * failed, may have left what is read here and is not on disk, and a sync alone does nothing for the
 * latter. The one that does not count is written first. */
enum status vote_store_confirm(struct vote_store *store, char *out_error, size_t error_size) {
    store->sequence++;
    store->error = slot_put(store, 1 - store->counts);
    if (store->error == 0) {
        store->error = slot_put(store, store->counts);
    }
    if (store->error == 0) {
        store->error = store->files.calls->sync_directory(store->files.data);
    }
    if (store->error != 0) {
        snprintf(out_error, error_size, "meta.1 and meta.2 could not be written: %s",
                 strerror(store->error));
        return store->error == ENOSPC ? STATUS_NO_SPACE : STATUS_IO;
    }
    store->is_confirmed = true;
    return STATUS_OK;
}

void vote_store_close(struct vote_store *store) {
    if (store == NULL) {
        return;
    }
    for (int i = 0; i < N_SLOTS; i++) {
        if (store->slots[i].file >= 0) {
            store->files.calls->close(store->files.data, store->slots[i].file);
        }
    }
    free(store);
}

uint64_t vote_store_term(const struct vote_store *store) {
    return store->term;
}

uint64_t vote_store_vote(const struct vote_store *store) {
    return store->vote;
}

int vote_store_write(struct vote_store *store, uint64_t term, uint64_t vote) {
    assert(store->is_confirmed);
    assert(term >= store->term);
    if (store->error != 0) {
        return store->error;
    }
    store->sequence++;
    store->term = term;
    store->vote = vote;
    for (int i = 0; i < N_SLOTS && store->error == 0; i++) {
        store->error = slot_write(store, store->slots[i].file);
    }
    return store->error;
}
