/*
 * Every request of the native API, and what its caller needs when authentication is on: the rights
 * to the names of the resources and pools, as the rules and the reads check them.
 */
#include "doors/door.h"
#include "doors/leased_v1/leased_v1_gateway.h"
#include "doors/native/native_call.h"
#include "doors/native/native_gateway_methods.h"

/* Each gRPC method has one POST route. */
const struct door_request native_request_table[] = {
    NATIVE_GATEWAY_POSTS(LEASED_V1_REQUEST)      /* the methods */
    NATIVE_GATEWAY_POSTS(LEASED_V1_POST_REQUEST) /* the same as JSON */
    NATIVE_GATEWAY_GETS(LEASED_V1_GET_REQUEST){NULL, DOOR_RIGHT_NONE},
};
