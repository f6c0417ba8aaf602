#include "doors/etcd/etcd_watch_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { NODES = 1000 };

static void watches_are_found_by_id_until_they_are_removed(void **state) {
    static struct etcd_watch_node nodes[NODES];
    struct etcd_watch_table table;
    etcd_watch_table_init(&table, &hash_key_fixed);
    assert_null(etcd_watch_table_find(&table, 0));
    for (int i = 0; i < NODES; i++) {
        nodes[i].id = (int64_t)i * 8 - NODES; /* of both signs, and not dense */
        assert_true(etcd_watch_table_add(&table, &nodes[i]));
    }
    assert_int_equal(table.count, NODES);
    for (int i = 0; i < NODES; i += 2) {
        etcd_watch_table_remove(&table, &nodes[i]);
    }
    assert_int_equal(table.count, NODES / 2);
    for (int i = 0; i < NODES; i++) {
        struct etcd_watch_node *expected = i % 2 == 0 ? NULL : &nodes[i];
        assert_ptr_equal(etcd_watch_table_find(&table, nodes[i].id), expected);
    }
    assert_null(etcd_watch_table_find(&table, 1));
    etcd_watch_table_clear(&table);
    assert_null(etcd_watch_table_find(&table, nodes[1].id));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(watches_are_found_by_id_until_they_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
