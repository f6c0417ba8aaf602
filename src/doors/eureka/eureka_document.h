/*
 * Eureka's answers: an instance, an application, all of them; with the names, the order and the
 * quirks that its clients expect.
 */
#ifndef LEASED_DOORS_EUREKA_EUREKA_DOCUMENT_H
#define LEASED_DOORS_EUREKA_EUREKA_DOCUMENT_H

#include "doors/eureka/eureka_instance.h"
#include "doors/eureka/eureka_writer.h"

/* Of the whole: how many instances have each status. Clients compare it with what they hold. */
struct eureka_counts {
    uint64_t of[EUREKA_STATUSES];
};
enum { EUREKA_HASH_CODE_SIZE = 160 };
/* "DOWN_1_UP_3_"; empty when there is no instance. */
void eureka_hash_code(const struct eureka_counts *counts, char out_text[EUREKA_HASH_CODE_SIZE]);

/* A document of one instance. */
void eureka_document_instance(struct eureka_writer *writer, const struct eureka_instance *instance);

/* A document of applications, piece by piece: open, then for each application its name and its
 * instances, then close. */
void eureka_document_open(struct eureka_writer *writer, int64_t version,
                          const struct eureka_counts *counts);
void eureka_document_close(struct eureka_writer *writer);
void eureka_document_open_application(struct eureka_writer *writer, struct bytes name);
void eureka_document_add(struct eureka_writer *writer, const struct eureka_instance *instance);
void eureka_document_close_application(struct eureka_writer *writer);

/* A document of one application: the same without the list around it. */
void eureka_document_open_only(struct eureka_writer *writer, struct bytes name);
void eureka_document_close_only(struct eureka_writer *writer);

#endif
