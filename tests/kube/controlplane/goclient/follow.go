package main

import (
	"io"
	"net/http"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var podCliqueSets = schema.GroupVersionResource{Group: "grove.io", Version: "v1alpha1", Resource: "podcliquesets"}

// follow runs an informer for pods and one for a custom kind. What they are told, and what they asked for, is told on.
func (c *client) follow() error {
	config := rest.CopyConfig(c.config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &listening{inner} })
	// Pods in protobuf, if the server likes, as programs with many of them do.
	typed, err := kubernetes.NewForConfig(preferringProtobuf(config))
	if err != nil {
		return err
	}
	untyped, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	pods := informers.NewSharedInformerFactoryWithOptions(typed, 0, informers.WithNamespace(c.namespace))
	sets := dynamicinformer.NewFilteredDynamicSharedInformerFactory(untyped, 0, c.namespace, nil)
	followed := map[string]cache.SharedIndexInformer{
		"pods":          pods.Core().V1().Pods().Informer(),
		"podcliquesets": sets.ForResource(podCliqueSets).Informer(),
	}
	handlers := map[string]cache.ResourceEventHandlerRegistration{}
	for name, informer := range followed {
		if handlers[name], err = informer.AddEventHandler(handler(name)); err != nil {
			return err
		}
	}
	pods.Start(stop)
	sets.Start(stop)
	for name, informer := range followed {
		// The handler, not only the store: what there was has been told by then.
		if !cache.WaitForCacheSync(stop, handlers[name].HasSynced) {
			return io.ErrUnexpectedEOF
		}
		tell("synced", fields{"kind": name, "names": informer.GetStore().ListKeys()})
	}
	// Until nobody wants to hear more.
	_, err = io.Copy(io.Discard, os.Stdin)
	close(stop)
	for name, informer := range followed {
		tell("cached", fields{"kind": name, "names": informer.GetStore().ListKeys()})
	}
	return err
}

func handler(kind string) cache.ResourceEventHandler {
	say := func(event string, obj any) {
		if unknown, isUnknown := obj.(cache.DeletedFinalStateUnknown); isUnknown {
			event, obj = "gone unseen", unknown.Obj
		}
		meta := obj.(metav1.Object)
		tell("event", fields{
			"kind": kind, "event": event, "name": meta.GetName(), "version": meta.GetResourceVersion(),
			"labels": meta.GetLabels(),
		})
	}
	return cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, isInitial bool) { say(map[bool]string{true: "there", false: "added"}[isInitial], obj) },
		UpdateFunc: func(old, obj any) {
			// After a list an informer tells all that it knows once more.
			if old.(metav1.Object).GetResourceVersion() != obj.(metav1.Object).GetResourceVersion() {
				say("updated", obj)
			}
		},
		DeleteFunc: func(obj any) { say("deleted", obj) },
	}
}

// listening tells of every request that was answered.
type listening struct{ inner http.RoundTripper }

func (l *listening) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := l.inner.RoundTrip(request)
	if err != nil {
		return answer, err
	}
	query := request.URL.Query()
	tell("asked", fields{
		"path":     request.URL.Path[strings.LastIndex(request.URL.Path, "/")+1:],
		"watch":    query.Get("watch") != "",
		"initial":  query.Get("sendInitialEvents"),
		"match":    query.Get("resourceVersionMatch"),
		"bookmark": query.Get("allowWatchBookmarks"),
		"from":     query.Get("resourceVersion"),
		"code":     answer.StatusCode,
	})
	return answer, err
}
