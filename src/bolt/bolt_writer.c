#include "bolt/bolt_writer.h"

#include "base/little_endian.h"
#include "bolt/bolt_format.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* A branch has at least two children of a page each: 2^64 bytes are less than that deep. */
    LEVELS_MAX = 64,
    FREELIST_PAGE = 2,
    FIRST_PAGE = 3,
    BUCKET_NAME_SIZE_MAX = 64,
    ELEMENTS_MAX = UINT16_MAX - 1 /* the greatest count means something else in a freelist */
};

/* A page that is being filled: heads of elements, and behind them their keys and values. */
struct level {
    struct buffer heads; /* positions count from the beginning of `data` until it is written */
    struct buffer data;
    struct buffer first_key;
    size_t n;
    uint64_t n_written; /* pages of this level that are gone */
};

struct tree {
    struct level levels[LEVELS_MAX]; /* leaves first */
    struct buffer last_key;
    bool is_empty;
};

struct bolt_writer {
    struct bolt_plan plan;
    struct buffer *out;
    uint64_t next_page;
    struct tree bucket;
    bool is_in_bucket;
    char name[BUCKET_NAME_SIZE_MAX + 1];
    struct tree buckets;
};

uint64_t bolt_plan_size(const struct bolt_plan *plan) {
    return plan->pages * BOLT_PAGE_SIZE;
}

/* --- Pages. --- */

static uint8_t *page_begin(struct bolt_writer *writer, size_t size) {
    uint8_t *page = buffer_reserve(writer->out, size);
    memset(page, 0, size);
    writer->out->size += size;
    return page;
}

static void set_page_header(uint8_t *page, uint64_t id, uint16_t flags, size_t count,
                            size_t n_pages) {
    little_endian_put_u64(page, id);
    little_endian_put_u16(page + 8, flags);
    little_endian_put_u16(page + 10, (uint16_t)count);
    little_endian_put_u32(page + 12, (uint32_t)(n_pages - 1));
}

static void write_meta(struct bolt_writer *writer, uint64_t id) {
    uint8_t *page = page_begin(writer, BOLT_PAGE_SIZE);
    set_page_header(page, id, BOLT_PAGE_META, 0, 1);
    uint8_t *meta = page + BOLT_PAGE_HEADER_SIZE;
    little_endian_put_u32(meta, BOLT_MAGIC);
    little_endian_put_u32(meta + 4, BOLT_VERSION);
    little_endian_put_u32(meta + 8, BOLT_PAGE_SIZE);
    little_endian_put_u64(meta + 16, writer->plan.root);
    little_endian_put_u64(meta + 32, FREELIST_PAGE);
    little_endian_put_u64(meta + 40, writer->plan.pages);
    little_endian_put_u64(meta + 48, id); /* the transaction: even ones are in page 0 */
    little_endian_put_u64(meta + BOLT_META_CHECKSUM_OFFSET,
                          bolt_checksum(meta, BOLT_META_CHECKSUM_OFFSET));
}

static size_t level_size(const struct level *level) {
    return BOLT_PAGE_HEADER_SIZE + level->heads.size + level->data.size;
}

/* Returns its number. */
static uint64_t write_level(struct bolt_writer *writer, struct level *level, bool is_leaf) {
    size_t size = level_size(level);
    size_t n_pages = (size + BOLT_PAGE_SIZE - 1) / BOLT_PAGE_SIZE;
    uint64_t id = writer->next_page;
    uint8_t *page = page_begin(writer, n_pages * BOLT_PAGE_SIZE);
    set_page_header(page, id, is_leaf ? BOLT_PAGE_LEAF : BOLT_PAGE_BRANCH, level->n, n_pages);
    uint8_t *heads = page + BOLT_PAGE_HEADER_SIZE;
    if (level->n > 0) {
        memcpy(heads, level->heads.data, level->heads.size);
        memcpy(heads + level->heads.size, level->data.data, level->data.size);
    }
    for (size_t i = 0; i < level->n; i++) {
        uint8_t *position = heads + i * BOLT_ELEMENT_SIZE + (is_leaf ? 4 : 0);
        uint32_t in_data = little_endian_get_u32(position);
        little_endian_put_u32(position,
                              in_data + (uint32_t)(level->heads.size - i * BOLT_ELEMENT_SIZE));
    }
    writer->next_page += n_pages;
    level->heads.size = 0;
    level->data.size = 0;
    level->n = 0;
    level->n_written++;
    return id;
}

/* --- Trees. --- */

static void tree_init(struct tree *tree) {
    for (size_t i = 0; i < LEVELS_MAX; i++) {
        tree->levels[i].n = 0;
        tree->levels[i].n_written = 0;
    }
    tree->last_key.size = 0;
    tree->is_empty = true;
}

static void tree_clear(struct tree *tree) {
    for (size_t i = 0; i < LEVELS_MAX; i++) {
        buffer_clear(&tree->levels[i].heads);
        buffer_clear(&tree->levels[i].data);
        buffer_clear(&tree->levels[i].first_key);
    }
    buffer_clear(&tree->last_key);
}

static void add_child(struct bolt_writer *writer, struct tree *tree, size_t at, uint64_t page);

static void begin_element(struct bolt_writer *writer, struct tree *tree, size_t at,
                          struct bytes key, size_t value_size) {
    struct level *level = &tree->levels[at];
    size_t size = BOLT_ELEMENT_SIZE + key.size + value_size;
    /* A branch without two children would lead nowhere. */
    size_t n_min = at == 0 ? 1 : 2;
    if (level->n >= n_min &&
        (level_size(level) + size > BOLT_PAGE_SIZE || level->n == ELEMENTS_MAX)) {
        uint64_t page = write_level(writer, level, at == 0);
        add_child(writer, tree, at + 1, page);
    }
    if (level->n == 0) {
        level->first_key.size = 0;
        buffer_append(&level->first_key, key.data, key.size);
    }
}

static uint8_t *add_head(struct level *level) {
    uint8_t *head = buffer_reserve(&level->heads, BOLT_ELEMENT_SIZE);
    memset(head, 0, BOLT_ELEMENT_SIZE);
    level->heads.size += BOLT_ELEMENT_SIZE;
    level->n++;
    return head;
}

/* The page that the level below has just written. */
static void add_child(struct bolt_writer *writer, struct tree *tree, size_t at, uint64_t page) {
    assert(at < LEVELS_MAX);
    const struct buffer *first = &tree->levels[at - 1].first_key;
    struct bytes key = bytes_of(first->data, first->size);
    begin_element(writer, tree, at, key, 0);
    struct level *level = &tree->levels[at];
    uint8_t *head = add_head(level);
    little_endian_put_u32(head, (uint32_t)level->data.size);
    little_endian_put_u32(head + 4, (uint32_t)key.size);
    little_endian_put_u64(head + 8, page);
    buffer_append(&level->data, key.data, key.size);
}

static void tree_add(struct bolt_writer *writer, struct tree *tree, uint32_t flags,
                     struct bytes key, struct bytes value) {
    assert(key.size > 0);
    assert(key.size <= BOLT_KEY_SIZE_MAX);
    assert(value.size < INT32_MAX);
    assert(tree->is_empty ||
           bytes_compare(bytes_of(tree->last_key.data, tree->last_key.size), key) < 0);
    tree->is_empty = false;
    tree->last_key.size = 0;
    buffer_append(&tree->last_key, key.data, key.size);
    begin_element(writer, tree, 0, key, value.size);
    struct level *leaf = &tree->levels[0];
    uint8_t *head = add_head(leaf);
    little_endian_put_u32(head, flags);
    little_endian_put_u32(head + 4, (uint32_t)leaf->data.size);
    little_endian_put_u32(head + 8, (uint32_t)key.size);
    little_endian_put_u32(head + 12, (uint32_t)value.size);
    buffer_append(&leaf->data, key.data, key.size);
    buffer_append(&leaf->data, value.data, value.size);
}

/* Writes what is left, and returns the root. */
static uint64_t tree_finish(struct bolt_writer *writer, struct tree *tree) {
    for (size_t i = 0;; i++) {
        assert(i < LEVELS_MAX);
        bool is_top = tree->levels[i].n_written == 0;
        uint64_t page = write_level(writer, &tree->levels[i], i == 0);
        if (is_top) {
            return page;
        }
        add_child(writer, tree, i + 1, page);
    }
}

/* --- The file. --- */

struct bolt_writer *bolt_writer_create(const struct bolt_plan *plan, struct buffer *out) {
    struct bolt_writer *writer = calloc(1, sizeof *writer);
    if (writer == NULL) {
        abort();
    }
    writer->plan = *plan;
    writer->out = out;
    tree_init(&writer->buckets);
    write_meta(writer, 0);
    write_meta(writer, 1);
    uint8_t *freelist = page_begin(writer, BOLT_PAGE_SIZE);
    set_page_header(freelist, FREELIST_PAGE, BOLT_PAGE_FREELIST, 0, 1);
    writer->next_page = FIRST_PAGE;
    return writer;
}

void bolt_writer_destroy(struct bolt_writer *writer) {
    if (writer != NULL) {
        tree_clear(&writer->bucket);
        tree_clear(&writer->buckets);
        free(writer);
    }
}

void bolt_writer_begin_bucket(struct bolt_writer *writer, const char *name) {
    assert(!writer->is_in_bucket);
    assert(strlen(name) <= BUCKET_NAME_SIZE_MAX);
    memcpy(writer->name, name, strlen(name) + 1);
    writer->is_in_bucket = true;
    tree_init(&writer->bucket);
}

void bolt_writer_put(struct bolt_writer *writer, struct bytes key, struct bytes value) {
    assert(writer->is_in_bucket);
    tree_add(writer, &writer->bucket, 0, key, value);
}

void bolt_writer_end_bucket(struct bolt_writer *writer) {
    assert(writer->is_in_bucket);
    writer->is_in_bucket = false;
    /* An empty bucket is a page in its own value, as bbolt makes one. */
    uint8_t value[BOLT_BUCKET_SIZE + BOLT_PAGE_HEADER_SIZE] = {0};
    size_t size = BOLT_BUCKET_SIZE;
    if (writer->bucket.is_empty) {
        set_page_header(value + BOLT_BUCKET_SIZE, 0, BOLT_PAGE_LEAF, 0, 1);
        size += BOLT_PAGE_HEADER_SIZE;
    } else {
        little_endian_put_u64(value, tree_finish(writer, &writer->bucket));
    }
    tree_add(writer, &writer->buckets, BOLT_ELEMENT_IS_BUCKET, bytes_from_text(writer->name),
             bytes_of(value, size));
}

struct bolt_plan bolt_writer_finish(struct bolt_writer *writer) {
    assert(!writer->is_in_bucket);
    struct bolt_plan done = {.root = tree_finish(writer, &writer->buckets)};
    done.pages = writer->next_page;
    if (writer->plan.pages != 0) {
        assert(done.root == writer->plan.root);
        assert(done.pages == writer->plan.pages);
    }
    return done;
}
