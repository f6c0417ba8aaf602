package integration

import (
	"context"
	"fmt"
	"math/rand"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/testutil"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3election/v3electionpb"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"
	"google.golang.org/grpc"
)

// grpcAPI has the services of one connection; toGRPC fills it in this order.
type grpcAPI struct {
	Cluster     pb.ClusterClient
	KV          pb.KVClient
	Lease       pb.LeaseClient
	Watch       pb.WatchClient
	Maintenance pb.MaintenanceClient
	Auth        pb.AuthClient
	Lock        v3lockpb.LockClient
	Election    v3electionpb.ElectionClient
}

// ClusterV3 is a cluster with a client of each member.
type ClusterV3 struct {
	*cluster

	mu      sync.Mutex
	clients []*clientv3.Client
	ofAll   *clientv3.Client // knows all members
}

// NewClusterV3 is launched, and has its clients unless they are not wanted.
func NewClusterV3(t testutil.TB, cfg *ClusterConfig) *ClusterV3 {
	cfg.UseGRPC = true
	clus := &ClusterV3{cluster: NewClusterByConfig(t, cfg)}
	clus.Launch(t)
	for _, m := range clus.Members {
		if cfg.SkipCreatingClient {
			break
		}
		cli, err := NewClientV3(m)
		if err != nil {
			t.Fatalf("a client of %s: %v", m.Name, err)
		}
		clus.clients = append(clus.clients, cli)
	}
	return clus
}

// NewClientV3 connects to a member, by its bridge if it has one.
func NewClientV3(m *member) (*clientv3.Client, error) {
	return connect([]string{m.grpcURL}, m)
}

func connect(endpoints []string, m *member) (*clientv3.Client, error) {
	cfg := clientv3.Config{
		Endpoints:          endpoints,
		DialTimeout:        clientDialLimit,
		DialOptions:        append([]grpc.DialOption{grpc.WithBlock()}, m.DialOptions...),
		MaxCallSendMsgSize: m.cluster.ClientMaxCallSendMsgSize,
		MaxCallRecvMsgSize: m.cluster.ClientMaxCallRecvMsgSize,
	}
	if m.ClientTLSInfo != nil {
		config, err := m.ClientTLSInfo.ClientConfig()
		if err != nil {
			return nil, err
		}
		cfg.TLS = config
	}
	return newClientV3(cfg, m.Logger)
}

// TakeClient leaves a client to the test, which closes it.
func (c *ClusterV3) TakeClient(idx int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[idx] = nil
}

func (c *ClusterV3) Client(i int) *clientv3.Client { return c.clients[i] }

func (c *ClusterV3) RandClient() *clientv3.Client { return c.clients[rand.Intn(len(c.clients))] }

// NewClientV3 is for the test to close.
func (c *ClusterV3) NewClientV3(memberIndex int) (*clientv3.Client, error) {
	return NewClientV3(c.Members[memberIndex])
}

// ClusterClient knows all members; it is the same one each time, and closed with the cluster.
func (c *ClusterV3) ClusterClient() (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ofAll != nil {
		return c.ofAll, nil
	}
	endpoints := []string{}
	for _, m := range c.Members {
		endpoints = append(endpoints, m.grpcURL)
	}
	cli, err := connect(endpoints, c.Members[0])
	c.ofAll = cli
	return cli, err
}

func (c *ClusterV3) Terminate(t testutil.TB) {
	c.mu.Lock()
	for _, cli := range append(c.clients, c.ofAll) {
		if cli == nil {
			continue
		}
		if err := cli.Close(); err != nil && err != context.Canceled && t != nil {
			t.Error(err)
		}
	}
	c.clients, c.ofAll = nil, nil
	c.mu.Unlock()
	c.cluster.Terminate(t)
}

// makeClients gives a function that makes clients and collects them.
func makeClients(t testutil.TB, clus *ClusterV3, clients *[]*clientv3.Client, choose func() int) func() *clientv3.Client {
	var mu sync.Mutex
	return func() *clientv3.Client {
		cli, err := clus.NewClientV3(choose())
		if err != nil {
			t.Fatalf("a client: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		*clients = append(*clients, cli)
		return cli
	}
}

func MakeSingleNodeClients(t testutil.TB, clus *ClusterV3, clients *[]*clientv3.Client) func() *clientv3.Client {
	return makeClients(t, clus, clients, func() int { return 0 })
}

func MakeMultiNodeClients(t testutil.TB, clus *ClusterV3, clients *[]*clientv3.Client) func() *clientv3.Client {
	return makeClients(t, clus, clients, func() int { return rand.Intn(len(clus.Members)) })
}

func CloseClients(t testutil.TB, clients []*clientv3.Client) {
	for _, cli := range clients {
		if err := cli.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// WaitClientV3 waits until a client's reads are answered.
func WaitClientV3(t testutil.TB, kv clientv3.KV) {
	var err error
	for deadline := time.Now().Add(requestTimeout); time.Now().Before(deadline); time.Sleep(pollInterval) {
		ctx, cancel := context.WithTimeout(context.Background(), RequestWaitTimeout)
		_, err = kv.Get(ctx, "/")
		cancel()
		if err == nil {
			return
		}
	}
	t.Fatalf("no answer after %v: %v", requestTimeout, err)
}

func (c *ClusterV3) GetLearnerMembers() ([]*pb.Member, error) {
	members, err := c.Members[0].s.members()
	learners := []*pb.Member{}
	for _, m := range members {
		if m.IsLearner {
			learners = append(learners, m)
		}
	}
	return learners, err
}

// AddAndLaunchLearnerMember adds a learner and waits until all list it.
func (c *ClusterV3) AddAndLaunchLearnerMember(t testutil.TB) {
	c.join(t, c.newMember(t, true))
}

// MustNewMember is the member that was announced last, not launched.
func (c *ClusterV3) MustNewMember(t testutil.TB, resp *clientv3.MemberAddResponse) *member {
	urls, err := types.NewURLs(resp.Member.PeerURLs)
	if err != nil {
		t.Fatal(err)
	}
	m := mustNewMember(t, memberConfig{name: fmt.Sprintf("m%d", c.made), cluster: c.cfg, useBridge: c.cfg.UseBridge,
		peerURLs: urls, isLearner: resp.Member.IsLearner})
	c.made++
	m.NewCluster = false
	before := initialOf(c.Members)
	c.tellMembers(t, append(append([]*member{}, c.Members...), m))
	for i, old := range c.Members {
		old.InitialPeerURLsMap = before[i]
	}
	c.Members = append(c.Members, m)
	return m
}
