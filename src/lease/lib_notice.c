/* Callbacks of users: run one at a time, without the mutex, by whoever handles events. */
#include "lease/lib_connection.h"

#include <stdlib.h>

void lib_notice_add(struct lease_connection *connection, struct lib_notice *notice, void *object) {
    notice->object = object;
    list_append(&connection->notices, &notice->link);
    lib_wake(connection);
}

static void free_notice(struct lib_notice *notice) {
    if (notice->clear != NULL) {
        notice->clear(notice);
    }
    free(notice);
}

void lib_notice_drop(struct lib_notice *notice) {
    list_remove(&notice->link);
    if (notice->take != NULL) {
        notice->take(notice);
    }
    free_notice(notice);
}

void lib_notice_run_all(struct lease_connection *connection) {
    if (connection->notice_object != NULL) {
        return; /* a callback drives the loop; its notices come after it */
    }
    struct list *node;
    while ((node = list_pop_first(&connection->notices)) != NULL) {
        struct lib_notice *notice = list_entry(node, struct lib_notice, link);
        if (notice->take != NULL) {
            notice->take(notice);
        }
        connection->notice_object = notice->object;
        connection->notice_thread = pthread_self();
        lib_unlock(connection);
        notice->run(notice);
        lib_lock(connection);
        connection->notice_object = NULL;
        lib_changed(connection);
        free_notice(notice);
        lib_step(connection); /* it may have started something */
    }
}

void lib_notice_forget(struct lease_connection *connection, const void *object) {
    struct list *next;
    for (struct list *node = connection->notices.next; node != &connection->notices; node = next) {
        next = node->next;
        struct lib_notice *notice = list_entry(node, struct lib_notice, link);
        if (notice->object == object) {
            lib_notice_drop(notice);
        }
    }
    while (connection->notice_object == object &&
           !pthread_equal(connection->notice_thread, pthread_self())) {
        pthread_cond_wait(&connection->changed, &connection->mutex);
    }
}
