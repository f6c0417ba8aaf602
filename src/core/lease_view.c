/*
 * A view holds a reference on every page of facts that the table had when it was opened. The loop
 * replaces a page that is shared before it writes to it, so what a view sees never changes, and
 * reading it from another thread needs no lock. References are counted on the loop's thread only.
 */
#include "core/lease_table_internal.h"

#include <stdlib.h>

struct lease_view {
    size_t count;
    size_t n_pages;
    struct lease_facts_page **pages;
    size_t n_ended;
    struct lease_ended *ended; /* oldest first */
    uint32_t epoch;
};

static void *allocate(size_t count, size_t size) {
    /* One more: an array of nothing is an array, too. */
    void *memory = calloc(count + 1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

struct lease_view *lease_view_open(struct lease_table *table) {
    struct lease_view *view = allocate(1, sizeof *view);
    view->count = table->index.count;
    view->epoch = table->epoch;
    view->pages = allocate(table->pages.n_pages, sizeof(struct lease_facts_page *));
    for (size_t i = 0; i < table->pages.n_pages; i++) {
        if (table->pages.facts[i] != NULL) {
            lease_facts_page_share(table->pages.facts[i]);
            view->pages[view->n_pages++] = table->pages.facts[i];
        }
    }
    size_t n_kept = table->n_ended < LEASE_ENDED_MAX ? (size_t)table->n_ended : LEASE_ENDED_MAX;
    view->ended = allocate(n_kept, sizeof view->ended[0]);
    for (uint64_t i = table->n_ended - n_kept; i < table->n_ended; i++) {
        view->ended[view->n_ended++] = table->ended[i % LEASE_ENDED_MAX];
    }
    return view;
}

void lease_view_close(struct lease_view *view) {
    if (view == NULL) {
        return;
    }
    for (size_t i = 0; i < view->n_pages; i++) {
        lease_facts_page_release(view->pages[i]);
    }
    free(view->pages);
    free(view->ended);
    free(view);
}

uint32_t lease_view_epoch(const struct lease_view *view) {
    return view->epoch;
}

size_t lease_view_count(const struct lease_view *view) {
    return view->count;
}

bool lease_view_visit(const struct lease_view *view,
                      bool (*visit)(void *context, const struct lease_facts *facts),
                      void *context) {
    for (size_t i = 0; i < view->n_pages; i++) {
        for (unsigned slot = 0; slot < LEASE_PAGE_SLOTS; slot++) {
            struct lease_facts facts;
            if (lease_facts_page_get(view->pages[i], slot, &facts) && !visit(context, &facts)) {
                return false;
            }
        }
    }
    return true;
}

size_t lease_view_ended(const struct lease_view *view, struct lease_ended *out_ended,
                        size_t capacity) {
    size_t n = view->n_ended < capacity ? view->n_ended : capacity;
    for (size_t i = 0; i < n; i++) {
        out_ended[i] = view->ended[i];
    }
    return n;
}
