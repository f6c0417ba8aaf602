#include "replication/data_dir_ids.h"

#include "base/crc32.h"

#include <assert.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char header[] = "leased-births 1\n";
enum { LINE_SIZE = 16 + 1 + 16 + 1 };

void data_dir_ids_of_table(const struct member_table *table, struct data_dir_ids *out_ids) {
    out_ids->n = 0;
    for (size_t i = 0; i < member_table_count(table); i++) {
        const struct member_facts *facts = &member_table_at(table, i)->facts;
        if (facts->data_dir_id != 0) {
            out_ids->members[out_ids->n].id = facts->id;
            out_ids->members[out_ids->n++].data_dir_id = facts->data_dir_id;
        }
    }
}

uint64_t data_dir_ids_find(const struct data_dir_ids *ids, uint64_t id) {
    for (size_t i = 0; i < ids->n; i++) {
        if (ids->members[i].id == id) {
            return ids->members[i].data_dir_id;
        }
    }
    return 0;
}

bool data_dir_ids_equal(const struct data_dir_ids *a, const struct data_dir_ids *b) {
    return a->n == b->n && memcmp(a->members, b->members, a->n * sizeof a->members[0]) == 0;
}

size_t data_dir_ids_encode(const struct data_dir_ids *ids,
                           char out_text[DATA_DIR_IDS_TEXT_SIZE_MAX]) {
    size_t size = sizeof header - 1;
    memcpy(out_text, header, size);
    for (size_t i = 0; i < ids->n; i++) {
        size += (size_t)snprintf(out_text + size, DATA_DIR_IDS_TEXT_SIZE_MAX - size,
                                 "%016" PRIx64 " %016" PRIx64 "\n", ids->members[i].id,
                                 ids->members[i].data_dir_id);
    }
    size += (size_t)snprintf(out_text + size, DATA_DIR_IDS_TEXT_SIZE_MAX - size,
                             "checksum %08" PRIx32 "\n", crc32c(0, out_text, size));
    assert(size < DATA_DIR_IDS_TEXT_SIZE_MAX);
    return size;
}

bool data_dir_ids_decode(struct bytes text, struct data_dir_ids *out_ids) {
    char copy[DATA_DIR_IDS_TEXT_SIZE_MAX];
    if (text.size >= sizeof copy || text.size < sizeof header - 1) {
        return false;
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    struct data_dir_ids ids = {0};
    const char *at = copy + sizeof header - 1;
    while (ids.n < MEMBERS_MAX && strlen(at) >= LINE_SIZE &&
           sscanf(at, "%16" SCNx64 " %16" SCNx64, &ids.members[ids.n].id,
                  &ids.members[ids.n].data_dir_id) == 2) {
        ids.n++;
        at += LINE_SIZE;
    }
    /* What was read must give the very bytes that were written, checksum and all. */
    char again[DATA_DIR_IDS_TEXT_SIZE_MAX];
    if (!bytes_equal(bytes_of(again, data_dir_ids_encode(&ids, again)), text)) {
        return false;
    }
    *out_ids = ids;
    return true;
}

void data_dir_ids_load(const char *path, struct data_dir_ids *out_ids) {
    char text[DATA_DIR_IDS_TEXT_SIZE_MAX];
    out_ids->n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t size = read(fd, text, sizeof text);
    close(fd);
    if (size >= 0) {
        (void)data_dir_ids_decode(bytes_of(text, (size_t)size), out_ids);
    }
}

bool data_dir_ids_store(const char *path, const struct data_dir_ids *ids) {
    char text[DATA_DIR_IDS_TEXT_SIZE_MAX];
    char new_path[PATH_MAX];
    size_t size = data_dir_ids_encode(ids, text);
    if ((size_t)snprintf(new_path, sizeof new_path, "%s.new", path) >= sizeof new_path) {
        return false;
    }
    int fd = open(new_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return false;
    }
    bool is_written = write(fd, text, size) == (ssize_t)size && fsync(fd) == 0;
    close(fd);
    return is_written && rename(new_path, path) == 0;
}
