#include "replication/births.h"

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

void births_of_table(const struct member_table *table, struct births *out_births) {
    out_births->n = 0;
    for (size_t i = 0; i < member_table_count(table); i++) {
        const struct member_facts *facts = &member_table_at(table, i)->facts;
        if (facts->birth != 0) {
            out_births->members[out_births->n].id = facts->id;
            out_births->members[out_births->n++].birth = facts->birth;
        }
    }
}

uint64_t births_find(const struct births *births, uint64_t id) {
    for (size_t i = 0; i < births->n; i++) {
        if (births->members[i].id == id) {
            return births->members[i].birth;
        }
    }
    return 0;
}

bool births_equal(const struct births *a, const struct births *b) {
    return a->n == b->n && memcmp(a->members, b->members, a->n * sizeof a->members[0]) == 0;
}

size_t births_encode(const struct births *births, char out_text[BIRTHS_TEXT_SIZE_MAX]) {
    size_t size = sizeof header - 1;
    memcpy(out_text, header, size);
    for (size_t i = 0; i < births->n; i++) {
        size += (size_t)snprintf(out_text + size, BIRTHS_TEXT_SIZE_MAX - size,
                                 "%016" PRIx64 " %016" PRIx64 "\n", births->members[i].id,
                                 births->members[i].birth);
    }
    size += (size_t)snprintf(out_text + size, BIRTHS_TEXT_SIZE_MAX - size,
                             "checksum %08" PRIx32 "\n", crc32c(0, out_text, size));
    assert(size < BIRTHS_TEXT_SIZE_MAX);
    return size;
}

bool births_decode(struct bytes text, struct births *out_births) {
    char copy[BIRTHS_TEXT_SIZE_MAX];
    if (text.size >= sizeof copy || text.size < sizeof header - 1) {
        return false;
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    struct births births = {0};
    const char *at = copy + sizeof header - 1;
    while (births.n < MEMBERS_MAX && strlen(at) >= LINE_SIZE &&
           sscanf(at, "%16" SCNx64 " %16" SCNx64, &births.members[births.n].id,
                  &births.members[births.n].birth) == 2) {
        births.n++;
        at += LINE_SIZE;
    }
    /* What was read must give the very bytes that were written, checksum and all. */
    char again[BIRTHS_TEXT_SIZE_MAX];
    if (!bytes_equal(bytes_of(again, births_encode(&births, again)), text)) {
        return false;
    }
    *out_births = births;
    return true;
}

void births_load(const char *path, struct births *out_births) {
    char text[BIRTHS_TEXT_SIZE_MAX];
    out_births->n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t size = read(fd, text, sizeof text);
    close(fd);
    if (size >= 0) {
        (void)births_decode(bytes_of(text, (size_t)size), out_births);
    }
}

bool births_store(const char *path, const struct births *births) {
    char text[BIRTHS_TEXT_SIZE_MAX];
    char new_path[PATH_MAX];
    size_t size = births_encode(births, text);
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
