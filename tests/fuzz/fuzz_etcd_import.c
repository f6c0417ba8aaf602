/*
 * Files of etcd's database. Checksums of the first two pages are put right, so that what lies
 * behind them is reached. What is taken must be sound.
 */
#include "base/little_endian.h"
#include "bolt/bolt_format.h"
#include "doors/etcd/etcd_import.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend(uint8_t *file, size_t size, size_t offset) {
    if (size >= offset + BOLT_PAGE_HEADER_SIZE + BOLT_META_SIZE) {
        uint8_t *meta = file + offset + BOLT_PAGE_HEADER_SIZE;
        little_endian_put_u64(meta + BOLT_META_CHECKSUM_OFFSET,
                              bolt_checksum(meta, BOLT_META_CHECKSUM_OFFSET));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE] = {1};
    uint8_t *file = malloc(size + 1);
    if (file == NULL) {
        abort();
    }
    memcpy(file, data, size);
    mend(file, size, 0);
    mend(file, size, BOLT_PAGE_SIZE_MIN);
    mend(file, size, BOLT_PAGE_SIZE);
    struct snapshot_target target = {.keys = key_store_create(),
                                     .leases = lease_table_create(NULL),
                                     .members = member_table_create(),
                                     .auth = auth_create()};
    struct etcd_import_options options = {.token_key = bytes_of(token_key, sizeof token_key)};
    struct etcd_import_report report;
    char error[256] = "";
    options.bump_revision = size % 3 == 0 ? 7 : 0;
    options.is_marked_compacted = options.bump_revision > 0;
    enum status status =
        etcd_import(bytes_of(file, size), &options, &target, &report, error, sizeof error);
    if (status == STATUS_OK) {
        key_store_validate(target.keys);
        lease_table_validate(target.leases);
        auth_validate(target.auth);
        assert(member_table_count(target.members) == 0);
    } else {
        assert(status == STATUS_CORRUPT || status == STATUS_MALFORMED ||
               status == STATUS_UNSUPPORTED || status == STATUS_INVALID);
        assert(error[0] != '\0');
    }
    auth_destroy(target.auth);
    member_table_destroy(target.members);
    lease_table_destroy(target.leases);
    key_store_destroy(target.keys);
    free(file);
    return 0;
}
