#include "core/lease_pages.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

void lease_pages_init(struct lease_pages *pages) {
    *pages = (struct lease_pages){.first_with_room = LEASE_NONE};
}

void lease_facts_page_share(struct lease_facts_page *page) {
    page->references++;
}

void lease_facts_page_release(struct lease_facts_page *page) {
    assert(page->references > 0);
    if (--page->references == 0) {
        free(page->rare);
        free(page);
    }
}

static size_t facts_page_bytes(const struct lease_facts_page *page) {
    return sizeof *page + (page->rare == NULL ? 0 : LEASE_PAGE_SLOTS * sizeof page->rare[0]);
}

static size_t local_page_bytes(const struct lease_local_page *page) {
    return sizeof *page + (page->kin == NULL ? 0 : LEASE_PAGE_SLOTS * sizeof page->kin[0]) +
           (page->long_keys == NULL ? 0 : LEASE_PAGE_SLOTS * sizeof page->long_keys[0]);
}

void lease_pages_clear(struct lease_pages *pages) {
    for (size_t i = 0; i < pages->n_pages; i++) {
        if (pages->facts[i] != NULL) {
            lease_facts_page_release(pages->facts[i]);
            free(pages->locals[i]->kin);
            free(pages->locals[i]->long_keys);
            free(pages->locals[i]);
        }
    }
    free(pages->facts);
    free(pages->locals);
    free(pages->vacant);
    lease_pages_init(pages);
}

static void *resize(void *array, size_t count, size_t size) {
    void *memory = realloc(array, count * size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void grow_directory(struct lease_pages *pages) {
    const size_t entry = sizeof pages->facts[0] + sizeof pages->locals[0] + sizeof pages->vacant[0];
    size_t capacity = pages->capacity == 0 ? 8 : pages->capacity * 2;
    assert(capacity <= SIZE_MAX / entry);
    pages->facts = resize(pages->facts, capacity, sizeof pages->facts[0]);
    pages->locals = resize(pages->locals, capacity, sizeof pages->locals[0]);
    pages->vacant = resize(pages->vacant, capacity, sizeof pages->vacant[0]);
    pages->bytes += (capacity - pages->capacity) * entry;
    pages->capacity = capacity;
}

/* --- Pages with room, doubly linked so that a page that fills up leaves at once. --- */

static void room_insert(struct lease_pages *pages, uint32_t number) {
    struct lease_local_page *page = pages->locals[number];
    page->room_before = LEASE_NONE;
    page->room_next = pages->first_with_room;
    if (page->room_next != LEASE_NONE) {
        pages->locals[page->room_next]->room_before = number;
    }
    pages->first_with_room = number;
}

static void room_remove(struct lease_pages *pages, uint32_t number) {
    struct lease_local_page *page = pages->locals[number];
    if (page->room_next != LEASE_NONE) {
        pages->locals[page->room_next]->room_before = page->room_before;
    }
    if (page->room_before != LEASE_NONE) {
        pages->locals[page->room_before]->room_next = page->room_next;
    } else {
        pages->first_with_room = page->room_next;
    }
}

static void open_page(struct lease_pages *pages) {
    uint32_t number;
    if (pages->n_vacant > 0) {
        number = pages->vacant[--pages->n_vacant];
    } else {
        assert(pages->n_pages < LEASE_PAGES_MAX);
        if (pages->n_pages == pages->capacity) {
            grow_directory(pages);
        }
        number = (uint32_t)pages->n_pages++;
    }
    struct lease_facts_page *facts = allocate(1, sizeof *facts);
    facts->references = 1;
    struct lease_local_page *local = allocate(1, sizeof *local);
    for (uint32_t slot = 0; slot < LEASE_PAGE_SLOTS; slot++) {
        local->slots[slot].next = slot + 1 < LEASE_PAGE_SLOTS ? slot + 1 : LEASE_NONE;
    }
    pages->facts[number] = facts;
    pages->locals[number] = local;
    pages->bytes += facts_page_bytes(facts) + local_page_bytes(local);
    room_insert(pages, number);
}

static void close_page(struct lease_pages *pages, uint32_t number) {
    room_remove(pages, number);
    pages->bytes -= facts_page_bytes(pages->facts[number]);
    pages->bytes -= local_page_bytes(pages->locals[number]);
    lease_facts_page_release(pages->facts[number]);
    free(pages->locals[number]->kin);
    free(pages->locals[number]->long_keys);
    free(pages->locals[number]);
    pages->facts[number] = NULL;
    pages->locals[number] = NULL;
    pages->vacant[pages->n_vacant++] = number;
}

/* The page of a handle, for writing: a copy takes its place when a view shares it. */
static struct lease_facts_page *own_page(struct lease_pages *pages, uint32_t handle) {
    struct lease_facts_page **place = &pages->facts[handle / LEASE_PAGE_SLOTS];
    struct lease_facts_page *page = *place;
    if (page->references == 1) {
        return page;
    }
    struct lease_facts_page *copy = allocate(1, sizeof *copy);
    copy->references = 1;
    copy->n_rare = page->n_rare;
    memcpy(copy->slots, page->slots, sizeof copy->slots);
    if (page->rare != NULL) {
        copy->rare = allocate(LEASE_PAGE_SLOTS, sizeof copy->rare[0]);
        memcpy(copy->rare, page->rare, LEASE_PAGE_SLOTS * sizeof copy->rare[0]);
    }
    lease_facts_page_release(page);
    *place = copy;
    return copy;
}

static bool rare_is_zero(const struct lease_rare *rare) {
    return rare->parent_id == 0 && rare->checkpoint_ms == 0 && rare->class == 0;
}

static void set_rare(struct lease_pages *pages, struct lease_facts_page *page, unsigned slot,
                     const struct lease_rare *rare) {
    if (page->rare == NULL) {
        if (rare_is_zero(rare)) {
            return;
        }
        page->rare = allocate(LEASE_PAGE_SLOTS, sizeof page->rare[0]);
        pages->bytes += LEASE_PAGE_SLOTS * sizeof page->rare[0];
    }
    page->n_rare -= !rare_is_zero(&page->rare[slot]);
    page->n_rare += !rare_is_zero(rare);
    page->rare[slot] = *rare;
    if (page->n_rare == 0) {
        free(page->rare);
        page->rare = NULL;
        pages->bytes -= LEASE_PAGE_SLOTS * sizeof page->rare[0];
    }
}

static void write_slot(struct lease_pages *pages, uint32_t handle,
                       const struct lease_facts *facts) {
    struct lease_facts_page *page = own_page(pages, handle);
    unsigned slot = handle % LEASE_PAGE_SLOTS;
    bool is_noted_full = facts->checkpoint_ms != 0 && facts->checkpoint_ms == facts->ttl_ms;
    page->slots[slot] = (struct lease_fact){.id = facts->id,
                                            .ttl_ms = facts->ttl_ms,
                                            .epoch = facts->epoch,
                                            .owner = facts->owner,
                                            .is_noted_full = is_noted_full};
    set_rare(pages, page, slot,
             &(struct lease_rare){.parent_id = facts->parent_id,
                                  .checkpoint_ms = is_noted_full ? 0 : facts->checkpoint_ms,
                                  .class = facts->class});
}

uint32_t lease_pages_add(struct lease_pages *pages, const struct lease_facts *facts) {
    assert(facts->id != 0);
    if (pages->first_with_room == LEASE_NONE) {
        open_page(pages);
    }
    uint32_t number = pages->first_with_room;
    struct lease_local_page *page = pages->locals[number];
    uint32_t slot = page->first_free;
    struct lease_local *local = &page->slots[slot];
    page->first_free = local->next;
    page->used++;
    if (page->first_free == LEASE_NONE) {
        room_remove(pages, number);
    }
    *local = (struct lease_local){.next = LEASE_NONE};
    timing_wheel_timer_init(&local->timer);
    if (page->kin != NULL) {
        page->kin[slot] = (struct lease_kin){LEASE_NONE, LEASE_NONE, LEASE_NONE, LEASE_NONE};
    }
    uint32_t handle = number * LEASE_PAGE_SLOTS + slot;
    write_slot(pages, handle, facts);
    return handle;
}

void lease_pages_remove(struct lease_pages *pages, uint32_t handle) {
    uint32_t number = handle / LEASE_PAGE_SLOTS;
    uint32_t slot = handle % LEASE_PAGE_SLOTS;
    struct lease_local_page *page = pages->locals[number];
    if (page->used == 1) {
        if (page->first_free == LEASE_NONE) {
            room_insert(pages, number);
        }
        close_page(pages, number);
        return;
    }
    write_slot(pages, handle, &(struct lease_facts){0});
    if (page->first_free == LEASE_NONE) {
        room_insert(pages, number);
    }
    page->slots[slot].next = page->first_free;
    page->first_free = slot;
    page->used--;
}

void lease_pages_set(struct lease_pages *pages, uint32_t handle, const struct lease_facts *facts) {
    assert(facts->id == lease_pages_fact(pages, handle)->id);
    write_slot(pages, handle, facts);
}

bool lease_facts_page_get(const struct lease_facts_page *page, unsigned slot,
                          struct lease_facts *out_facts) {
    const struct lease_fact *fact = &page->slots[slot];
    if (fact->id == 0) {
        return false;
    }
    *out_facts = (struct lease_facts){
        .id = fact->id, .ttl_ms = fact->ttl_ms, .owner = fact->owner, .epoch = fact->epoch};
    if (page->rare != NULL) {
        out_facts->parent_id = page->rare[slot].parent_id;
        out_facts->checkpoint_ms = page->rare[slot].checkpoint_ms;
        out_facts->class = page->rare[slot].class;
    }
    if (fact->is_noted_full) {
        out_facts->checkpoint_ms = fact->ttl_ms;
    }
    return true;
}

struct lease_kin *lease_pages_need_kin(struct lease_pages *pages, uint32_t handle) {
    struct lease_local_page *page = pages->locals[handle / LEASE_PAGE_SLOTS];
    if (page->kin == NULL) {
        page->kin = allocate(LEASE_PAGE_SLOTS, sizeof page->kin[0]);
        pages->bytes += LEASE_PAGE_SLOTS * sizeof page->kin[0];
        for (unsigned i = 0; i < LEASE_PAGE_SLOTS; i++) {
            page->kin[i] = (struct lease_kin){LEASE_NONE, LEASE_NONE, LEASE_NONE, LEASE_NONE};
        }
    }
    return &page->kin[handle % LEASE_PAGE_SLOTS];
}

size_t *lease_pages_need_long_keys(struct lease_pages *pages, uint32_t handle) {
    struct lease_local_page *page = pages->locals[handle / LEASE_PAGE_SLOTS];
    if (page->long_keys == NULL) {
        page->long_keys = allocate(LEASE_PAGE_SLOTS, sizeof page->long_keys[0]);
        pages->bytes += LEASE_PAGE_SLOTS * sizeof page->long_keys[0];
    }
    return &page->long_keys[handle % LEASE_PAGE_SLOTS];
}

uint32_t lease_pages_next(const struct lease_pages *pages, uint32_t handle) {
    for (size_t number = handle / LEASE_PAGE_SLOTS; number < pages->n_pages; number++) {
        const struct lease_facts_page *page = pages->facts[number];
        unsigned slot = number == handle / LEASE_PAGE_SLOTS ? handle % LEASE_PAGE_SLOTS : 0;
        for (; page != NULL && slot < LEASE_PAGE_SLOTS; slot++) {
            if (page->slots[slot].id != 0) {
                return (uint32_t)(number * LEASE_PAGE_SLOTS + slot);
            }
        }
    }
    return LEASE_NONE;
}

static size_t validate_page(const struct lease_pages *pages, size_t number) {
    const struct lease_facts_page *facts = pages->facts[number];
    const struct lease_local_page *local = pages->locals[number];
    assert(facts->references >= 1);
    size_t n_free = 0;
    for (uint32_t slot = local->first_free; slot != LEASE_NONE; slot = local->slots[slot].next) {
        assert(slot < LEASE_PAGE_SLOTS);
        assert(facts->slots[slot].id == 0);
        assert(n_free < LEASE_PAGE_SLOTS);
        n_free++;
    }
    size_t used = 0;
    size_t n_rare = 0;
    for (unsigned slot = 0; slot < LEASE_PAGE_SLOTS; slot++) {
        used += facts->slots[slot].id != 0;
        n_rare += facts->rare != NULL && !rare_is_zero(&facts->rare[slot]);
    }
    assert(used == local->used);
    assert(used > 0);
    assert(used + n_free == LEASE_PAGE_SLOTS);
    assert(n_rare == facts->n_rare);
    assert((n_rare == 0) == (facts->rare == NULL));
    return used;
}

void lease_pages_validate(const struct lease_pages *pages, size_t count) {
    size_t used = 0;
    size_t n_vacant = 0;
    size_t n_with_room = 0;
    size_t bytes = pages->capacity *
                   (sizeof pages->facts[0] + sizeof pages->locals[0] + sizeof pages->vacant[0]);
    for (size_t i = 0; i < pages->n_pages; i++) {
        if (pages->facts[i] == NULL) {
            n_vacant++;
            continue;
        }
        used += validate_page(pages, i);
        n_with_room += pages->locals[i]->first_free != LEASE_NONE;
        bytes += facts_page_bytes(pages->facts[i]) + local_page_bytes(pages->locals[i]);
    }
    assert(used == count);
    assert(n_vacant == pages->n_vacant);
    assert(bytes == pages->bytes);
    uint32_t before = LEASE_NONE;
    uint32_t number = pages->first_with_room;
    for (; number != LEASE_NONE; number = pages->locals[number]->room_next) {
        assert(n_with_room > 0);
        n_with_room--;
        assert(pages->locals[number]->room_before == before);
        assert(pages->locals[number]->first_free != LEASE_NONE);
        before = number;
    }
    assert(n_with_room == 0);
}
