// A program of somebody else: client-go, as operators everywhere use it. Every step it takes is told as a line of JSON.
// `goclient steps KUBECONFIG NAMESPACE` takes its own steps; `goclient follow KUBECONFIG NAMESPACE` runs informers until
// its input ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

type fields map[string]any

type client struct {
	config    *rest.Config
	typed     *kubernetes.Clientset
	dynamic   *dynamic.DynamicClient
	namespace string
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: goclient steps|follow KUBECONFIG NAMESPACE")
		os.Exit(2)
	}
	one, err := connect(os.Args[2], os.Args[3])
	if err == nil {
		switch os.Args[1] {
		case "steps":
			err = one.steps(context.Background())
		case "follow":
			err = one.follow()
		default:
			err = fmt.Errorf("no such command: %s", os.Args[1])
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func connect(kubeconfig, namespace string) (*client, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "goclient/1"
	config.QPS, config.Burst = 1000, 1000
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return &client{config: config, typed: typed, dynamic: untyped, namespace: namespace}, nil
}

var telling sync.Mutex

// tell writes one line, whole, whoever else has something to tell.
func tell(what string, more fields) {
	line := fields{"step": what}
	for name, value := range more {
		line[name] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	telling.Lock()
	defer telling.Unlock()
	fmt.Println(string(text))
}
