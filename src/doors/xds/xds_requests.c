/* Every request of this door, with the right that its caller needs to the services it names. */
#include "doors/xds/xds_state.h"

#define ADS "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
#define CDS "/envoy.service.cluster.v3.ClusterDiscoveryService/"
#define EDS "/envoy.service.endpoint.v3.EndpointDiscoveryService/"
#define LDS "/envoy.service.listener.v3.ListenerDiscoveryService/"
#define RDS "/envoy.service.route.v3.RouteDiscoveryService/"

const struct door_request xds_request_table[] = {
    {ADS "StreamAggregatedResources", DOOR_RIGHT_READ},
    {ADS "DeltaAggregatedResources", DOOR_RIGHT_READ},
    {CDS "StreamClusters", DOOR_RIGHT_READ},
    {CDS "DeltaClusters", DOOR_RIGHT_READ},
    {CDS "FetchClusters", DOOR_RIGHT_READ},
    {EDS "StreamEndpoints", DOOR_RIGHT_READ},
    {EDS "DeltaEndpoints", DOOR_RIGHT_READ},
    {EDS "FetchEndpoints", DOOR_RIGHT_READ},
    {LDS "StreamListeners", DOOR_RIGHT_READ},
    {LDS "DeltaListeners", DOOR_RIGHT_READ},
    {LDS "FetchListeners", DOOR_RIGHT_READ},
    {RDS "StreamRoutes", DOOR_RIGHT_READ},
    {RDS "DeltaRoutes", DOOR_RIGHT_READ},
    {RDS "FetchRoutes", DOOR_RIGHT_READ},
    {"POST /v3/discovery:clusters", DOOR_RIGHT_READ},
    {"POST /v3/discovery:endpoints", DOOR_RIGHT_READ},
    {"POST /v3/discovery:listeners", DOOR_RIGHT_READ},
    {"POST /v3/discovery:routes", DOOR_RIGHT_READ},
    {NULL, DOOR_RIGHT_NONE},
};
