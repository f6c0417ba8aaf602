#include "raft/legacy_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The spelling that raft_uv uses. */
static void write_name(const struct legacy_file *file, char *name) {
    unsigned long long first = file->first;
    unsigned long long second = file->second;
    unsigned long long third = file->third;
    switch (file->kind) {
    case LEGACY_METADATA:
        snprintf(name, LEGACY_NAME_SIZE, "metadata%llu", first);
        break;
    case LEGACY_SNAPSHOT:
        snprintf(name, LEGACY_NAME_SIZE, "snapshot-%llu-%llu-%llu", first, second, third);
        break;
    case LEGACY_SNAPSHOT_META:
        snprintf(name, LEGACY_NAME_SIZE, "snapshot-%llu-%llu-%llu.meta", first, second, third);
        break;
    case LEGACY_CLOSED:
        snprintf(name, LEGACY_NAME_SIZE, "%016llu-%016llu", first, second);
        break;
    case LEGACY_OPEN:
        snprintf(name, LEGACY_NAME_SIZE, "open-%llu", first);
        break;
    }
}

static bool try_kind(const char *name, enum legacy_kind kind, struct legacy_file *out_file) {
    static const struct {
        const char *format;
        int n;
    } formats[] = {[LEGACY_METADATA] = {"metadata%1llu", 1},
                   [LEGACY_SNAPSHOT] = {"snapshot-%20llu-%20llu-%20llu", 3},
                   [LEGACY_SNAPSHOT_META] = {"snapshot-%20llu-%20llu-%20llu.meta", 3},
                   [LEGACY_CLOSED] = {"%20llu-%20llu", 2},
                   [LEGACY_OPEN] = {"open-%20llu", 1}};
    unsigned long long numbers[3] = {0};
    if (sscanf(name, formats[kind].format, &numbers[0], &numbers[1], &numbers[2]) !=
        formats[kind].n) {
        return false;
    }
    struct legacy_file file = {
        .kind = kind, .first = numbers[0], .second = numbers[1], .third = numbers[2]};
    write_name(&file, file.name);
    if (strcmp(name, file.name) != 0) {
        return false;
    }
    *out_file = file;
    return true;
}

bool legacy_files_parse(const char *name, struct legacy_file *out_file) {
    for (int kind = LEGACY_METADATA; kind <= LEGACY_OPEN; kind++) {
        if (try_kind(name, (enum legacy_kind)kind, out_file)) {
            return out_file->kind != LEGACY_METADATA || out_file->first == 1 ||
                   out_file->first == 2;
        }
    }
    return false;
}

static void add_found(void *data, const char *name) {
    struct legacy_list *list = data;
    struct legacy_file file;
    if (!legacy_files_parse(name, &file)) {
        return;
    }
    if (list->n == list->capacity) {
        list->capacity = list->capacity == 0 ? 16 : 2 * list->capacity;
        list->items = realloc(list->items, list->capacity * sizeof(*list->items));
        if (list->items == NULL) {
            abort();
        }
    }
    list->items[list->n++] = file;
}

static int compare_numbers(uint64_t a, uint64_t b) {
    return (a > b) - (a < b);
}

static int compare(const void *a, const void *b) {
    const struct legacy_file *x = a;
    const struct legacy_file *y = b;
    int order = compare_numbers(x->kind, y->kind);
    order = order != 0 ? order : compare_numbers(x->first, y->first);
    order = order != 0 ? order : compare_numbers(x->second, y->second);
    return order != 0 ? order : compare_numbers(x->third, y->third);
}

int legacy_files_list(const struct raft_files *files, struct legacy_list *out_list) {
    *out_list = (struct legacy_list){0};
    int error = files->calls->list(files->data, add_found, out_list);
    if (out_list->n > 0) {
        qsort(out_list->items, out_list->n, sizeof(*out_list->items), compare);
    }
    return error;
}

void legacy_files_clear(struct legacy_list *list) {
    free(list->items);
    *list = (struct legacy_list){0};
}

struct legacy_file *legacy_files_of(const struct legacy_list *list, enum legacy_kind kind,
                                    size_t *out_n) {
    size_t begin = 0;
    while (begin < list->n && list->items[begin].kind != kind) {
        begin++;
    }
    size_t end = begin;
    while (end < list->n && list->items[end].kind == kind) {
        end++;
    }
    *out_n = end - begin;
    return end > begin ? &list->items[begin] : NULL;
}

static int read_open_file(const struct raft_files *files, int file, struct buffer *out_bytes) {
    uint64_t size = 0;
    size_t n = 0;
    int error = files->calls->size(files->data, file, &size);
    if (error == 0 && size > SIZE_MAX / 2) {
        error = EFBIG;
    }
    if (error != 0 || size == 0) {
        return error;
    }
    error = files->calls->read(files->data, file, 0, buffer_reserve(out_bytes, (size_t)size),
                               (size_t)size, &n);
    out_bytes->size = error == 0 ? n : 0;
    return error;
}

int legacy_files_read(const struct raft_files *files, const char *name, struct buffer *out_bytes) {
    int file = -1;
    int error = files->calls->open(files->data, name, RAFT_FILES_READ, &file);
    if (error != 0) {
        return error;
    }
    error = read_open_file(files, file, out_bytes);
    int close_error = files->calls->close(files->data, file);
    return error != 0 ? error : close_error;
}
