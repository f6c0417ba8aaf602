// Package client answers what some cases of the integration suite ask of etcd's v2 client, by v3: whether keys can be
// written and are seen by every member, and that a member is removed. Each call has a connection of its own.
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

const dialLimit = 5 * time.Second

// Client is where to ask.
type Client struct {
	Endpoints []string
	TLS       *tls.Config
}

// ask runs one question over a connection that is closed afterwards.
func (c Client) ask(question func(*clientv3.Client) error) error {
	cli, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints, TLS: c.TLS, DialTimeout: dialLimit, Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	defer cli.Close()
	return question(cli)
}

// Member is one of a cluster.
type Member struct {
	ID         string
	Name       string
	PeerURLs   []string
	ClientURLs []string
}

// Node is a key; its indexes are revisions.
type Node struct {
	Key           string
	Value         string
	CreatedIndex  uint64
	ModifiedIndex uint64
}

// Response has the key that was asked for.
type Response struct {
	Action string
	Node   *Node
}

type (
	SetOptions     struct{}
	GetOptions     struct{}
	WatcherOptions struct{ AfterIndex uint64 }
)

// KeysAPI reads and writes keys.
type KeysAPI struct{ client Client }

func NewKeysAPI(c Client) KeysAPI { return KeysAPI{c} }

// absolute: v2 takes `foo` for `/foo`.
func absolute(key string) string { return "/" + strings.TrimPrefix(key, "/") }

// Create writes a key that must not be there.
func (k KeysAPI) Create(ctx context.Context, key, value string) (*Response, error) {
	key = absolute(key)
	var response *Response
	err := k.client.ask(func(cli *clientv3.Client) error {
		isNew := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
		done, err := cli.Txn(ctx).If(isNew).Then(clientv3.OpPut(key, value)).Commit()
		if err != nil {
			return err
		}
		if !done.Succeeded {
			return errors.New("Key already exists")
		}
		revision := uint64(done.Header.Revision)
		response = &Response{"create", &Node{key, value, revision, revision}}
		return nil
	})
	return response, err
}

// Set writes a key.
func (k KeysAPI) Set(ctx context.Context, key, value string, _ *SetOptions) (*Response, error) {
	key = absolute(key)
	var response *Response
	err := k.client.ask(func(cli *clientv3.Client) error {
		done, err := cli.Put(ctx, key, value)
		if err != nil {
			return err
		}
		response = &Response{"set", &Node{Key: key, Value: value, ModifiedIndex: uint64(done.Header.Revision)}}
		return nil
	})
	return response, err
}

// Get reads a key.
func (k KeysAPI) Get(ctx context.Context, key string, _ *GetOptions) (*Response, error) {
	key = absolute(key)
	var response *Response
	err := k.client.ask(func(cli *clientv3.Client) error {
		found, err := cli.Get(ctx, key)
		if err != nil {
			return err
		}
		if len(found.Kvs) == 0 {
			return errors.New("Key not found")
		}
		kv := found.Kvs[0]
		response = &Response{"get", &Node{key, string(kv.Value), uint64(kv.CreateRevision), uint64(kv.ModRevision)}}
		return nil
	})
	return response, err
}

// Watcher waits for changes of a key after an index.
type Watcher struct {
	client Client
	key    string
	after  uint64
}

func (k KeysAPI) Watcher(key string, options *WatcherOptions) Watcher {
	return Watcher{k.client, absolute(key), options.AfterIndex}
}

// Next is the first change.
func (w Watcher) Next(ctx context.Context) (*Response, error) {
	var response *Response
	err := w.client.ask(func(cli *clientv3.Client) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		for change := range cli.Watch(ctx, w.key, clientv3.WithRev(int64(w.after)+1)) {
			if err := change.Err(); err != nil {
				return err
			}
			for _, event := range change.Events {
				kv := event.Kv
				response = &Response{"set", &Node{w.key, string(kv.Value), uint64(kv.CreateRevision), uint64(kv.ModRevision)}}
				return nil
			}
		}
		return ctx.Err()
	})
	if err == nil && response == nil {
		err = errors.New("the watch ended")
	}
	return response, err
}

// MembersAPI changes the members of a cluster.
type MembersAPI struct{ client Client }

func NewMembersAPI(c Client) MembersAPI { return MembersAPI{c} }

// Remove takes a member by its id in hexadecimal digits.
func (m MembersAPI) Remove(ctx context.Context, id string) error {
	number, err := strconv.ParseUint(id, 16, 64)
	if err != nil {
		return err
	}
	return m.client.ask(func(cli *clientv3.Client) error {
		_, err := cli.MemberRemove(ctx, number)
		return err
	})
}
