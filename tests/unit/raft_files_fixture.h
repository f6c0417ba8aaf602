/*
 * A temporary directory behind the real raft_files, and items for a log. Removed with all that is
 * in it.
 */
#ifndef LEASED_TESTS_RAFT_FILES_FIXTURE_H
#define LEASED_TESTS_RAFT_FILES_FIXTURE_H

#include "raft/log_item.h"
#include "raft/raft_files.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct files_fixture {
    char path[64];
    struct raft_files files;
};

static inline int files_setup(void **state) {
    static struct files_fixture fixture;
    snprintf(fixture.path, sizeof fixture.path, "/tmp/leased-raft-files-XXXXXX");
    if (mkdtemp(fixture.path) == NULL || raft_files_open(fixture.path, &fixture.files) != 0) {
        return -1;
    }
    *state = &fixture;
    return 0;
}

static inline int files_teardown(void **state) {
    struct files_fixture *fixture = *state;
    raft_files_close(&fixture->files);
    DIR *directory = opendir(fixture->path);
    assert(directory != NULL);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        (void)unlinkat(dirfd(directory), entry->d_name, 0);
    }
    closedir(directory);
    return rmdir(fixture->path);
}

/* Its bytes follow from index, term and size. */
static inline struct log_item *make_item(uint64_t index, uint64_t term, size_t size) {
    uint8_t *bytes = size == 0 ? NULL : malloc(size);
    assert(bytes != NULL || size == 0);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = (uint8_t)(index * 31 + term * 7 + i * 13 + 1);
    }
    return log_item_create(size == 0 ? LOG_BARRIER : LOG_COMMAND, index, term, bytes, size);
}

static inline bool is_item_equal(const struct log_item *a, const struct log_item *b) {
    return a->index == b->index && a->term == b->term && a->type == b->type && a->size == b->size &&
           (a->size == 0 || memcmp(a->bytes, b->bytes, a->size) == 0);
}

#endif
