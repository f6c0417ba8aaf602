#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct item {
    int number;
    struct list link;
};

static void expect(const struct list *list, size_t n, const int *numbers) {
    const struct list *link = list->next;
    for (size_t i = 0; i < n; i++) {
        assert_ptr_not_equal(link, list);
        assert_int_equal(list_entry(link, struct item, link)->number, numbers[i]);
        assert_ptr_equal(link->next->previous, link);
        assert_ptr_equal(link->previous->next, link);
        link = link->next;
    }
    assert_ptr_equal(link, list);
    assert_int_equal(list_is_empty(list), n == 0);
}

#define EXPECT(list, ...)                                                                          \
    expect(list, sizeof((int[]){__VA_ARGS__}) / sizeof(int), (int[]){__VA_ARGS__})

static void fill(struct list *list, struct item *items, size_t n) {
    list_init(list);
    for (size_t i = 0; i < n; i++) {
        items[i].number = (int)i;
        list_append(list, &items[i].link);
    }
}

static void a_new_list_is_empty(void **state) {
    struct list list;
    list_init(&list);
    expect(&list, 0, NULL);
    assert_null(list_pop_first(&list));
}

static void nodes_keep_the_order_they_were_appended_in(void **state) {
    struct list list;
    struct item items[3];
    fill(&list, items, 3);
    EXPECT(&list, 0, 1, 2);
}

static void any_node_can_be_removed_twice(void **state) {
    struct list list;
    struct item items[4];
    fill(&list, items, 4);
    list_remove(&items[1].link);
    EXPECT(&list, 0, 2, 3);
    list_remove(&items[1].link);
    EXPECT(&list, 0, 2, 3);
    assert_true(list_is_empty(&items[1].link));
    list_remove(&items[0].link);
    list_remove(&items[3].link);
    EXPECT(&list, 2);
    list_remove(&items[2].link);
    expect(&list, 0, NULL);
}

static void popping_takes_from_the_front(void **state) {
    struct list list;
    struct item items[3];
    fill(&list, items, 3);
    for (int i = 0; i < 3; i++) {
        struct list *link = list_pop_first(&list);
        assert_int_equal(list_entry(link, struct item, link)->number, i);
        assert_true(list_is_empty(link));
    }
    assert_null(list_pop_first(&list));
}

static void a_list_moves_to_the_end_of_another(void **state) {
    struct list to;
    struct list from;
    struct item items[2];
    struct item others[3];
    fill(&to, items, 2);
    fill(&from, others, 3);
    list_append_all(&to, &from);
    EXPECT(&to, 0, 1, 0, 1, 2);
    expect(&from, 0, NULL);
    list_append_all(&to, &from);
    EXPECT(&to, 0, 1, 0, 1, 2);
    list_append_all(&from, &to);
    EXPECT(&from, 0, 1, 0, 1, 2);
    expect(&to, 0, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_list_is_empty),
        cmocka_unit_test(nodes_keep_the_order_they_were_appended_in),
        cmocka_unit_test(any_node_can_be_removed_twice),
        cmocka_unit_test(popping_takes_from_the_front),
        cmocka_unit_test(a_list_moves_to_the_end_of_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
