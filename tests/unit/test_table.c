#include "cli/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static const struct table_column columns[] = {{"NAME", false}, {"SIZE", true}, {"NOTE", false}};

static void expect_print(const struct table *table, const char *expected) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    table_print(table, out);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

static void columns_are_as_wide_as_their_widest_cell(void **state) {
    struct table table;
    table_init(&table, columns, 3);
    table_add(&table, "a");
    table_add(&table, "%d", 7);
    table_add(&table, "x");
    table_add(&table, "longer");
    table_add(&table, "%d", 123456);
    table_add(&table, "%s", "");
    expect_print(&table, "NAME      SIZE  NOTE\n"
                         "a            7  x\n"
                         "longer  123456  \n");
    table_clear(&table);
}

static void a_table_without_rows_is_its_titles(void **state) {
    struct table table;
    table_init(&table, columns, 2);
    expect_print(&table, "NAME  SIZE\n");
    table_clear(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(a_table_without_rows_is_its_titles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
