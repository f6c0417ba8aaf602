/* What a function that looks gives: one public structure and all that it points to, released
 * together. */
#ifndef LEASED_LEASE_LIB_RESULT_H
#define LEASED_LEASE_LIB_RESULT_H

#include "base/arena.h"
#include "lease/lib_connection.h"

struct lib_result;

/* Room for a public structure of `size` bytes, zeroed. */
struct lib_result *lib_result_create(size_t size);
struct arena *lib_result_arena(struct lib_result *result);
/* The public structure, which lease_free() takes. */
void *lib_result_value(struct lib_result *result);

/* Asks, and reads the answer into a result of `size` bytes. */
typedef bool lib_result_read(struct arena *arena, struct bytes message, void *out, void *context);
enum lease_status lib_look(struct lease_connection *connection, struct lib_request *request,
                           size_t size, lib_result_read *read, void *context,
                           const void **out_value);

/* A name of a resource or pool within its limits; LEASE_INVALID. */
enum lease_status lib_check_name(const char *name);
/* The server speaks leased.v1; LEASE_UNSUPPORTED with the sentence. */
enum lease_status lib_need_native(struct lease_connection *connection, const char *sentence);

#endif
