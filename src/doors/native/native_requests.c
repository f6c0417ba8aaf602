/*
 * Every request of the native API, and what its caller needs when authentication is on: the rights
 * to the names of the resources and pools, as the rules and the reads check them.
 */
#include "doors/door.h"
#include "doors/native/native_call.h"
#include "doors/native/native_gateway_methods.h"

/* Each gRPC method has one POST route. */
#define METHOD(path_behind, method_path, right) {method_path, right},
#define POST(path_behind, method_path, right) {"POST /lease/v1" path_behind, right},
#define GET(path_behind, method_path, right) {"GET /lease/v1" path_behind, right},

const struct door_request native_request_table[] = {
    NATIVE_GATEWAY_POSTS(METHOD) /* the methods */
    NATIVE_GATEWAY_POSTS(POST)   /* the same as JSON */
    NATIVE_GATEWAY_GETS(GET){NULL, DOOR_RIGHT_NONE},
};
