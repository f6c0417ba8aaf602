#include "core/lease_family.h"

#include <assert.h>
#include <stdlib.h>

static int64_t id_of(const struct lease_pages *pages, uint32_t handle) {
    return lease_pages_fact(pages, handle)->id;
}

/* Joins two heaps, either of which may be empty, and returns the root. */
static uint32_t meld(struct lease_pages *pages, uint32_t a, uint32_t b) {
    if (a == LEASE_NONE) {
        return b;
    }
    if (b == LEASE_NONE) {
        return a;
    }
    uint32_t root = id_of(pages, a) < id_of(pages, b) ? a : b;
    uint32_t below = root == a ? b : a;
    struct lease_kin *root_kin = lease_pages_kin(pages, root);
    struct lease_kin *below_kin = lease_pages_kin(pages, below);
    below_kin->heap_before = root;
    below_kin->heap_next = root_kin->heap_first;
    if (below_kin->heap_next != LEASE_NONE) {
        lease_pages_kin(pages, below_kin->heap_next)->heap_before = below;
    }
    root_kin->heap_first = below;
    return root;
}

/* Makes one heap of a row of siblings: first in pairs, then the pairs from the last to the first.
 * The pairs wait in a stack linked by heap_next. */
static uint32_t meld_row(struct lease_pages *pages, uint32_t first) {
    uint32_t stack = LEASE_NONE;
    while (first != LEASE_NONE) {
        uint32_t a = first;
        uint32_t b = lease_pages_kin(pages, a)->heap_next;
        first = b == LEASE_NONE ? LEASE_NONE : lease_pages_kin(pages, b)->heap_next;
        uint32_t pair = meld(pages, a, b);
        lease_pages_kin(pages, pair)->heap_next = stack;
        stack = pair;
    }
    uint32_t root = LEASE_NONE;
    while (stack != LEASE_NONE) {
        uint32_t next = lease_pages_kin(pages, stack)->heap_next;
        root = meld(pages, root, stack);
        stack = next;
    }
    if (root != LEASE_NONE) {
        lease_pages_kin(pages, root)->heap_next = LEASE_NONE;
        lease_pages_kin(pages, root)->heap_before = LEASE_NONE;
    }
    return root;
}

void lease_family_join(struct lease_pages *pages, uint32_t parent, uint32_t child) {
    struct lease_kin *child_kin = lease_pages_need_kin(pages, child);
    child_kin->heap_first = LEASE_NONE;
    child_kin->heap_next = LEASE_NONE;
    child_kin->heap_before = LEASE_NONE;
    struct lease_kin *parent_kin = lease_pages_need_kin(pages, parent);
    parent_kin->first_child = meld(pages, parent_kin->first_child, child);
}

void lease_family_leave(struct lease_pages *pages, uint32_t parent, uint32_t child) {
    struct lease_kin *parent_kin = lease_pages_kin(pages, parent);
    struct lease_kin *kin = lease_pages_kin(pages, child);
    uint32_t below = meld_row(pages, kin->heap_first);
    if (parent_kin->first_child == child) {
        parent_kin->first_child = below;
    } else {
        struct lease_kin *before = lease_pages_kin(pages, kin->heap_before);
        if (before->heap_first == child) {
            before->heap_first = kin->heap_next;
        } else {
            before->heap_next = kin->heap_next;
        }
        if (kin->heap_next != LEASE_NONE) {
            lease_pages_kin(pages, kin->heap_next)->heap_before = kin->heap_before;
        }
        parent_kin->first_child = meld(pages, parent_kin->first_child, below);
    }
    kin->heap_first = LEASE_NONE;
    kin->heap_next = LEASE_NONE;
    kin->heap_before = LEASE_NONE;
}

uint32_t lease_family_first(const struct lease_pages *pages, uint32_t parent) {
    const struct lease_kin *kin = lease_pages_kin(pages, parent);
    return kin == NULL ? LEASE_NONE : kin->first_child;
}

size_t lease_family_list(const struct lease_pages *pages, uint32_t handle, uint32_t *out_handles,
                         size_t capacity) {
    size_t n = 1;
    assert(capacity > 0);
    out_handles[0] = handle;
    /* What was written is looked into in turn: the children of each, and of all but the first what
     * is below and beside it in the heap that it is in. */
    for (size_t i = 0; i < n && n <= capacity; i++) {
        const struct lease_kin *kin = lease_pages_kin(pages, out_handles[i]);
        if (kin == NULL) {
            continue;
        }
        const uint32_t next[] = {kin->first_child, i > 0 ? kin->heap_first : LEASE_NONE,
                                 i > 0 ? kin->heap_next : LEASE_NONE};
        for (size_t j = 0; j < sizeof next / sizeof next[0]; j++) {
            if (next[j] != LEASE_NONE && n++ < capacity) {
                out_handles[n - 1] = next[j];
            }
        }
    }
    return n;
}

/* The parent named in the facts of a lease; LEASE_NONE: it has none, or it does not exist. */
static uint32_t parent_of(const struct lease_pages *pages, const struct lease_index *index,
                          uint32_t handle, bool *out_has_one) {
    struct lease_facts facts;
    lease_pages_get(pages, handle, &facts);
    *out_has_one = facts.parent_id != 0;
    return *out_has_one ? lease_index_find(index, pages, facts.parent_id) : LEASE_NONE;
}

enum { UNSEEN, ON_THE_WAY, GOOD };

/* Walks from a lease up to where the ancestors are known to be good. */
static enum status check_ancestors(const struct lease_pages *pages, const struct lease_index *index,
                                   uint32_t handle, uint8_t *marks) {
    bool has_parent;
    uint32_t at = handle;
    while (at != LEASE_NONE && marks[at] == UNSEEN) {
        marks[at] = ON_THE_WAY;
        at = parent_of(pages, index, at, &has_parent);
        if (has_parent && at == LEASE_NONE) {
            return STATUS_CORRUPT;
        }
    }
    if (at != LEASE_NONE && marks[at] == ON_THE_WAY) {
        return STATUS_CORRUPT;
    }
    for (at = handle; at != LEASE_NONE && marks[at] == ON_THE_WAY;) {
        marks[at] = GOOD;
        at = parent_of(pages, index, at, &has_parent);
    }
    return STATUS_OK;
}

enum status lease_family_restore(struct lease_pages *pages, const struct lease_index *index) {
    uint8_t *marks = calloc(pages->n_pages + 1, LEASE_PAGE_SLOTS);
    if (marks == NULL) {
        abort();
    }
    enum status status = STATUS_OK;
    uint32_t handle = lease_pages_next(pages, 0);
    for (; status == STATUS_OK && handle != LEASE_NONE;
         handle = lease_pages_next(pages, handle + 1)) {
        status = check_ancestors(pages, index, handle, marks);
    }
    free(marks);
    if (status != STATUS_OK) {
        return status;
    }
    for (handle = lease_pages_next(pages, 0); handle != LEASE_NONE;
         handle = lease_pages_next(pages, handle + 1)) {
        bool has_parent;
        uint32_t parent = parent_of(pages, index, handle, &has_parent);
        if (has_parent) {
            lease_family_join(pages, parent, handle);
        }
    }
    return STATUS_OK;
}

/* Counts a heap and checks its order and links. */
static size_t validate_heap(const struct lease_pages *pages, const struct lease_index *index,
                            uint32_t parent, uint32_t first, uint32_t above) {
    size_t count = 0;
    uint32_t before = above;
    for (uint32_t at = first; at != LEASE_NONE;) {
        const struct lease_kin *kin = lease_pages_kin(pages, at);
        bool has_parent;
        assert(kin->heap_before == before);
        assert(parent_of(pages, index, at, &has_parent) == parent);
        if (above != LEASE_NONE) {
            assert(id_of(pages, at) > id_of(pages, above));
        } else {
            assert(kin->heap_next == LEASE_NONE);
        }
        count += 1 + validate_heap(pages, index, parent, kin->heap_first, at);
        before = at;
        at = kin->heap_next;
    }
    return count;
}

void lease_family_validate(const struct lease_pages *pages, const struct lease_index *index) {
    size_t n_with_parent = 0;
    size_t n_in_heaps = 0;
    for (uint32_t handle = lease_pages_next(pages, 0); handle != LEASE_NONE;
         handle = lease_pages_next(pages, handle + 1)) {
        bool has_parent;
        uint32_t parent = parent_of(pages, index, handle, &has_parent);
        assert(has_parent == (parent != LEASE_NONE));
        n_with_parent += has_parent;
        n_in_heaps +=
            validate_heap(pages, index, handle, lease_family_first(pages, handle), LEASE_NONE);
    }
    assert(n_with_parent == n_in_heaps);
}
