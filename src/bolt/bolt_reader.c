#include "bolt/bolt_reader.h"

#include "base/little_endian.h"
#include "bolt/bolt_format.h"

/* --- The file. --- */

struct meta {
    uint32_t version;
    uint32_t page_size;
    uint64_t root;
    uint64_t pages;
    uint64_t transaction;
};

/* At the offset of a page 0 or 1. */
static bool read_meta(struct bytes bytes, size_t offset, struct meta *out_meta) {
    if (offset > bytes.size || bytes.size - offset < BOLT_PAGE_HEADER_SIZE + BOLT_META_SIZE) {
        return false;
    }
    const uint8_t *meta = bytes.data + offset + BOLT_PAGE_HEADER_SIZE;
    if (little_endian_get_u32(meta) != BOLT_MAGIC ||
        little_endian_get_u64(meta + BOLT_META_CHECKSUM_OFFSET) !=
            bolt_checksum(meta, BOLT_META_CHECKSUM_OFFSET)) {
        return false;
    }
    *out_meta = (struct meta){.version = little_endian_get_u32(meta + 4),
                              .page_size = little_endian_get_u32(meta + 8),
                              .root = little_endian_get_u64(meta + 16),
                              .pages = little_endian_get_u64(meta + 40),
                              .transaction = little_endian_get_u64(meta + 48)};
    return true;
}

/* The second one lies at a page size, which only the first could tell: if that is damaged, all
 * sizes are tried. */
static bool find_meta(struct bytes bytes, struct meta *out_meta) {
    bool is_found = read_meta(bytes, 0, out_meta);
    for (size_t size = BOLT_PAGE_SIZE_MIN; size <= BOLT_PAGE_SIZE_MAX; size *= 2) {
        struct meta second;
        if (read_meta(bytes, size, &second) && second.page_size == size &&
            (!is_found || (second.page_size == out_meta->page_size &&
                           second.transaction > out_meta->transaction))) {
            *out_meta = second;
            is_found = true;
        }
    }
    return is_found;
}

enum status bolt_file_open(struct bolt_file *file, struct bytes bytes) {
    struct meta meta = {0};
    if (!find_meta(bytes, &meta)) {
        return STATUS_MALFORMED;
    }
    if (meta.version != BOLT_VERSION) {
        return STATUS_UNSUPPORTED;
    }
    bool is_size = meta.page_size >= BOLT_PAGE_SIZE_MIN && meta.page_size <= BOLT_PAGE_SIZE_MAX &&
                   (meta.page_size & (meta.page_size - 1)) == 0;
    if (!is_size || meta.pages > bytes.size / meta.page_size || meta.root >= meta.pages ||
        meta.root == 0) {
        return STATUS_MALFORMED;
    }
    *file = (struct bolt_file){
        .bytes = bytes, .page_size = meta.page_size, .pages = meta.pages, .root = meta.root};
    return STATUS_OK;
}

/* --- Pages. --- */

/* With its overflow. */
static bool page_of(const struct bolt_file *file, uint64_t id, struct bytes *out_page) {
    if (id < 2 || id >= file->pages) {
        return false;
    }
    const uint8_t *page = file->bytes.data + id * file->page_size;
    uint64_t overflow = little_endian_get_u32(page + 12);
    if (little_endian_get_u64(page) != id || overflow >= file->pages - id) {
        return false;
    }
    *out_page = bytes_of(page, (overflow + 1) * file->page_size);
    return true;
}

static const uint8_t *head_of(struct bytes page, size_t i) {
    return page.data + BOLT_PAGE_HEADER_SIZE + i * BOLT_ELEMENT_SIZE;
}

/* `size` bytes from a position on, which counts from the element. */
static bool bytes_at(struct bytes page, size_t i, uint64_t position, uint64_t size,
                     struct bytes *out_bytes) {
    uint64_t offset = BOLT_PAGE_HEADER_SIZE + i * BOLT_ELEMENT_SIZE + position;
    if (offset > page.size || size > page.size - offset) {
        return false;
    }
    *out_bytes = bytes_of(page.data + offset, size);
    return true;
}

static bool push(struct bolt_cursor *cursor, struct bytes page) {
    if (cursor->depth == BOLT_DEPTH_MAX || page.size < BOLT_PAGE_HEADER_SIZE ||
        ++cursor->pages_seen > cursor->file->pages) {
        return false;
    }
    uint16_t flags = little_endian_get_u16(page.data + 8);
    size_t n = little_endian_get_u16(page.data + 10);
    if ((flags != BOLT_PAGE_LEAF && flags != BOLT_PAGE_BRANCH) ||
        n > (page.size - BOLT_PAGE_HEADER_SIZE) / BOLT_ELEMENT_SIZE) {
        return false;
    }
    cursor->stack[cursor->depth].page = page;
    cursor->stack[cursor->depth].i = 0;
    cursor->stack[cursor->depth].n = n;
    cursor->stack[cursor->depth].is_leaf = flags == BOLT_PAGE_LEAF;
    cursor->depth++;
    return true;
}

static bool push_id(struct bolt_cursor *cursor, uint64_t id) {
    struct bytes page;
    return page_of(cursor->file, id, &page) && push(cursor, page);
}

/* --- Cursors. --- */

static bool fail(struct bolt_cursor *cursor) {
    cursor->status = STATUS_CORRUPT;
    cursor->depth = 0;
    return false;
}

void bolt_cursor_init(struct bolt_cursor *cursor, const struct bolt_file *file,
                      const struct bolt_bucket *bucket) {
    memset(cursor, 0, sizeof *cursor);
    cursor->file = file;
    cursor->status = STATUS_OK;
    bool is_sound = bucket->root == 0
                        ? push(cursor, bucket->inline_page) && cursor->stack[0].is_leaf
                        : push_id(cursor, bucket->root);
    if (!is_sound) {
        fail(cursor);
    }
}

/* The element of a leaf at which the cursor stands. */
static bool read_leaf(struct bolt_cursor *cursor, struct bytes *out_key, struct bytes *out_value,
                      bool *out_is_bucket) {
    struct bytes page = cursor->stack[cursor->depth - 1].page;
    size_t i = cursor->stack[cursor->depth - 1].i++;
    const uint8_t *head = head_of(page, i);
    uint64_t position = little_endian_get_u32(head + 4);
    uint64_t key_size = little_endian_get_u32(head + 8);
    if (!bytes_at(page, i, position, key_size, out_key) ||
        !bytes_at(page, i, position + key_size, little_endian_get_u32(head + 12), out_value) ||
        (cursor->is_begun && bytes_compare(cursor->key_before, *out_key) >= 0)) {
        return fail(cursor);
    }
    cursor->key_before = *out_key;
    cursor->is_begun = true;
    *out_is_bucket = (little_endian_get_u32(head) & BOLT_ELEMENT_IS_BUCKET) != 0;
    return true;
}

bool bolt_cursor_next(struct bolt_cursor *cursor, struct bytes *out_key, struct bytes *out_value,
                      bool *out_is_bucket) {
    while (cursor->depth > 0) {
        size_t top = cursor->depth - 1;
        if (cursor->stack[top].i == cursor->stack[top].n) {
            cursor->depth--;
        } else if (cursor->stack[top].is_leaf) {
            return read_leaf(cursor, out_key, out_value, out_is_bucket);
        } else {
            const uint8_t *head = head_of(cursor->stack[top].page, cursor->stack[top].i++);
            if (!push_id(cursor, little_endian_get_u64(head + 8))) {
                return fail(cursor);
            }
        }
    }
    return false;
}

/* --- Buckets. --- */

static enum status find(const struct bolt_file *file, const struct bolt_bucket *bucket,
                        struct bytes wanted, struct bytes *out_value, bool *out_is_bucket) {
    struct bolt_cursor cursor;
    struct bytes key;
    bolt_cursor_init(&cursor, file, bucket);
    while (bolt_cursor_next(&cursor, &key, out_value, out_is_bucket)) {
        if (bytes_equal(key, wanted)) {
            return STATUS_OK;
        }
    }
    return cursor.status == STATUS_OK ? STATUS_KEY_NOT_FOUND : cursor.status;
}

enum status bolt_bucket_open(const struct bolt_file *file, const char *name,
                             struct bolt_bucket *out_bucket) {
    const struct bolt_bucket root = {.root = file->root};
    struct bytes value;
    bool is_bucket = false;
    enum status status = find(file, &root, bytes_from_text(name), &value, &is_bucket);
    if (status != STATUS_OK) {
        return status;
    }
    if (!is_bucket || value.size < BOLT_BUCKET_SIZE) {
        return STATUS_CORRUPT;
    }
    out_bucket->root = little_endian_get_u64(value.data);
    out_bucket->inline_page =
        bytes_of(value.data + BOLT_BUCKET_SIZE, value.size - BOLT_BUCKET_SIZE);
    return STATUS_OK;
}

enum status bolt_bucket_get(const struct bolt_file *file, const struct bolt_bucket *bucket,
                            struct bytes key, struct bytes *out_value) {
    bool is_bucket = false;
    enum status status = find(file, bucket, key, out_value, &is_bucket);
    return status == STATUS_OK && is_bucket ? STATUS_KEY_NOT_FOUND : status;
}
