package main

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/scale"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/pager"
	"k8s.io/client-go/util/retry"
)

const manager = "goclient"

// steps are all taken, in this order; the first that goes wrong ends them.
func (c *client) steps(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		c.discover, c.podsOneByOne, c.patches, c.applies, c.conflicts, c.refusals, c.protobuf,
		c.customObjects, c.scales, c.metadataOnly, c.watches, c.leads, c.deletions,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) discover(context.Context) error {
	_, lists, err := c.typed.Discovery().ServerGroupsAndResources()
	if err != nil {
		return err
	}
	found := []string{}
	for _, list := range lists {
		if list.GroupVersion != "grove.io/v1alpha1" {
			continue
		}
		for _, one := range list.APIResources {
			sort.Strings(one.Verbs)
			found = append(found, fmt.Sprintf("%s %s %v %v", one.Name, one.Kind, one.ShortNames, one.Verbs))
		}
	}
	sort.Strings(found)
	tell("discover", fields{"found": found})
	return nil
}

func (c *client) podsOneByOne(ctx context.Context) error {
	pods := c.typed.CoreV1().Pods(c.namespace)
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		born, err := pods.Create(ctx, quietPod(name), metav1.CreateOptions{FieldManager: manager})
		if err != nil {
			return err
		}
		tell("create", fields{"name": born.Name, "phase": born.Status.Phase, "class": born.Status.QOSClass})
	}
	names := []string{}
	pages := 0
	paged := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		pages++
		return pods.List(ctx, options)
	})
	paged.PageSize = 2
	err := paged.EachListItem(ctx, metav1.ListOptions{}, func(obj runtime.Object) error {
		names = append(names, obj.(*corev1.Pod).Name)
		return nil
	})
	if err != nil {
		return err
	}
	tell("list", fields{"names": names, "pages": pages})
	chosen, err := pods.List(ctx, metav1.ListOptions{LabelSelector: "name in (a,c)", FieldSelector: "metadata.name!=a"})
	if err != nil {
		return err
	}
	tell("choose", fields{"names": namesOf(chosen.Items)})
	return nil
}

func (c *client) patches(ctx context.Context) error {
	pods := c.typed.CoreV1().Pods(c.namespace)
	for _, one := range []struct {
		kind types.PatchType
		body string
	}{
		{types.StrategicMergePatchType, `{"spec":{"containers":[{"name":"main","image":"example.org/other:2"}]}}`},
		{types.MergePatchType, `{"metadata":{"labels":{"merged":"yes"}}}`},
		{types.JSONPatchType, `[{"op":"add","path":"/metadata/labels/json","value":"yes"}]`},
	} {
		seen, err := pods.Patch(ctx, "a", one.kind, []byte(one.body), metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			return err
		}
		image := seen.Spec.Containers[0].Image
		tell("patch", fields{"kind": one.kind, "labels": seen.Labels, "image": image})
	}
	status := `{"status":{"conditions":[{"type":"Ready","status":"True"}],"phase":"Running"}}`
	seen, err := pods.Patch(
		ctx, "a", types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{FieldManager: manager}, "status",
	)
	if err != nil {
		return err
	}
	tell("patch status", fields{"phase": seen.Status.Phase, "conditions": len(seen.Status.Conditions)})
	return nil
}

func (c *client) applies(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(c.namespace)
	wish := func(values map[string]string) *applycorev1.ConfigMapApplyConfiguration {
		return applycorev1.ConfigMap("applied", c.namespace).WithData(values)
	}
	for _, one := range []struct {
		by      string
		values  map[string]string
		isForce bool
	}{
		{"one", map[string]string{"x": "1", "y": "1"}, false},
		{"two", map[string]string{"y": "2"}, false},
		{"two", map[string]string{"y": "2"}, true},
		{"one", map[string]string{}, false},
	} {
		options := metav1.ApplyOptions{FieldManager: one.by, Force: one.isForce}
		seen, err := maps.Apply(ctx, wish(one.values), options)
		told := fields{"by": one.by, "error": said(err)}
		if err == nil {
			told["data"], told["managers"] = seen.Data, managersOf(seen)
		}
		tell("apply", told)
	}
	seen, err := maps.Get(ctx, "applied", metav1.GetOptions{})
	if err != nil {
		return err
	}
	mine, err := applycorev1.ExtractConfigMap(seen, "two")
	if err != nil {
		return err
	}
	tell("extract", fields{"data": mine.Data})
	return nil
}

func (c *client) conflicts(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(c.namespace)
	old, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "contested"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	newer := old.DeepCopy()
	newer.Data = map[string]string{"by": "the first"}
	if _, err = maps.Update(ctx, newer, metav1.UpdateOptions{}); err != nil {
		return err
	}
	tries := 0
	_, err = maps.Update(ctx, old, metav1.UpdateOptions{})
	tell("conflict", fields{"is": apierrors.IsConflict(err), "error": said(err)})
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		tries++
		if tries > 1 {
			if old, err = maps.Get(ctx, "contested", metav1.GetOptions{}); err != nil {
				return err
			}
		}
		old.Data = map[string]string{"by": "the second"}
		_, err := maps.Update(ctx, old, metav1.UpdateOptions{})
		return err
	})
	tell("retry", fields{"tries": tries, "error": said(err)})
	return nil
}

func (c *client) refusals(ctx context.Context) error {
	pods := c.typed.CoreV1().Pods(c.namespace)
	_, missing := pods.Get(ctx, "nobody", metav1.GetOptions{})
	_, taken := pods.Create(ctx, quietPod("a"), metav1.CreateOptions{})
	bad := quietPod("bad")
	bad.Spec.Containers[0].Name = "No Name"
	_, invalid := pods.Create(ctx, bad, metav1.CreateOptions{})
	_, dry := pods.Create(ctx, quietPod("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	_, left := pods.Get(ctx, "dry", metav1.GetOptions{})
	tell("refuse", fields{
		"missing": apierrors.IsNotFound(missing), "taken": apierrors.IsAlreadyExists(taken),
		"invalid": apierrors.IsInvalid(invalid), "causes": causesOf(invalid), "dry": said(dry), "left": apierrors.IsNotFound(left),
		"words": []string{said(missing), said(taken), said(invalid)},
	})
	return nil
}

// protobuf is what most programs in Go write in; an answer may be JSON.
func (c *client) protobuf(ctx context.Context) error {
	typed, err := kubernetes.NewForConfig(preferringProtobuf(c.config))
	if err != nil {
		return err
	}
	born, err := typed.CoreV1().Pods(c.namespace).Create(ctx, quietPod("binary"), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	listed, err := typed.CoreV1().Pods(c.namespace).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=binary"})
	if err != nil {
		return err
	}
	tell("protobuf", fields{"name": born.Name, "labels": born.Labels, "listed": namesOf(listed.Items)})
	return nil
}

func preferringProtobuf(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	return config
}

func (c *client) customObjects(ctx context.Context) error {
	sets := c.dynamic.Resource(podCliqueSets).Namespace(c.namespace)
	born, err := sets.Create(ctx, smallSet("chat"), metav1.CreateOptions{FieldManager: manager})
	if err != nil {
		return err
	}
	tell("custom create", fields{"kind": born.GetKind(), "generation": born.GetGeneration()})
	patch := []byte(`{"metadata":{"labels":{"tier":"gold"}}}`)
	seen, err := sets.Patch(ctx, "chat", types.MergePatchType, patch, metav1.PatchOptions{FieldManager: manager})
	if err != nil {
		return err
	}
	tell("custom patch", fields{"labels": seen.GetLabels(), "generation": seen.GetGeneration()})
	_, err = sets.Patch(ctx, "chat", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	tell("custom strategic", fields{"unsupported": apierrors.IsUnsupportedMediaType(err), "error": said(err)})
	wish := smallSet("chat")
	if err := unstructured.SetNestedField(wish.Object, int64(2), "spec", "replicas"); err != nil {
		return err
	}
	_, err = sets.Apply(ctx, "chat", wish, metav1.ApplyOptions{FieldManager: "another"})
	tell("custom conflict", fields{"is": apierrors.IsConflict(err), "error": said(err)})
	seen, err = sets.Apply(ctx, "chat", wish, metav1.ApplyOptions{FieldManager: "another", Force: true})
	if err != nil {
		return err
	}
	replicas, _, _ := unstructured.NestedInt64(seen.Object, "spec", "replicas")
	tell("custom apply", fields{"replicas": replicas, "managers": managersOf(seen), "generation": seen.GetGeneration()})
	if err := unstructured.SetNestedField(seen.Object, int64(1), "status", "replicas"); err != nil {
		return err
	}
	if err := unstructured.SetNestedField(seen.Object, int64(9), "spec", "replicas"); err != nil {
		return err
	}
	seen, err = sets.UpdateStatus(ctx, seen, metav1.UpdateOptions{FieldManager: manager})
	if err != nil {
		return err
	}
	replicas, _, _ = unstructured.NestedInt64(seen.Object, "spec", "replicas")
	known, _, _ := unstructured.NestedInt64(seen.Object, "status", "replicas")
	tell("custom status", fields{"spec": replicas, "status": known, "generation": seen.GetGeneration()})
	return nil
}

func (c *client) scales(ctx context.Context) error {
	groups, err := restmapper.GetAPIGroupResources(c.typed.Discovery())
	if err != nil {
		return err
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	kind, err := mapper.KindFor(podCliqueSets)
	if err != nil {
		return err
	}
	mapping, err := mapper.RESTMapping(kind.GroupKind())
	if err != nil {
		return err
	}
	kinds := scale.NewDiscoveryScaleKindResolver(c.typed.Discovery())
	scales, err := scale.NewForConfig(rest.CopyConfig(c.config), mapper, dynamic.LegacyAPIPathResolverFunc, kinds)
	if err != nil {
		return err
	}
	return c.scaleIt(ctx, mapping, scales)
}

func (c *client) scaleIt(ctx context.Context, mapping *meta.RESTMapping, scales scale.ScalesGetter) error {
	resource := mapping.Resource.GroupResource()
	seen, err := scales.Scales(c.namespace).Get(ctx, resource, "chat", metav1.GetOptions{})
	if err != nil {
		return err
	}
	before := seen.Spec.Replicas
	seen.Spec.Replicas = 3
	seen, err = scales.Scales(c.namespace).Update(ctx, resource, seen, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	tell("scale", fields{"kind": mapping.GroupVersionKind.Kind, "before": before, "after": seen.Spec.Replicas})
	return nil
}

func (c *client) metadataOnly(ctx context.Context) error {
	bare, err := metadata.NewForConfig(c.config)
	if err != nil {
		return err
	}
	pods := bare.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(c.namespace)
	one, err := pods.Get(ctx, "a", metav1.GetOptions{})
	if err != nil {
		return err
	}
	all, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	names := []string{}
	for _, item := range all.Items {
		names = append(names, item.Name)
	}
	tell("metadata", fields{"kind": one.Kind, "labels": one.Labels, "names": names})
	return nil
}

func (c *client) watches(ctx context.Context) error {
	maps := c.typed.CoreV1().ConfigMaps(c.namespace)
	mine := metav1.ListOptions{LabelSelector: "seen=yes"}
	listed, err := maps.List(ctx, mine)
	if err != nil {
		return err
	}
	// A safety net, far above what anything takes.
	seconds := int64(120)
	mine.ResourceVersion, mine.TimeoutSeconds, mine.AllowWatchBookmarks = listed.ResourceVersion, &seconds, true
	watching, err := maps.Watch(ctx, mine)
	if err != nil {
		return err
	}
	wanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "w", Labels: map[string]string{"seen": "yes"}}}
	if _, err := maps.Create(ctx, wanted, metav1.CreateOptions{}); err != nil {
		return err
	}
	patch := []byte(`{"data":{"k":"v"}}`)
	if _, err := maps.Patch(ctx, "w", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "w", metav1.DeleteOptions{}); err != nil {
		return err
	}
	events := told(watching, func(soFar seen) bool { return len(soFar.events) == 3 }).events
	// The bookmark of a short watch comes a moment before its end, or not at all if the server was busy just then.
	isMarked, short := false, int64(3)
	mine.TimeoutSeconds = &short
	for !isMarked {
		if watching, err = maps.Watch(ctx, mine); err != nil {
			return err
		}
		isMarked = told(watching, func(soFar seen) bool { return soFar.isMarked }).isMarked
	}
	tell("watch", fields{"events": events, "has bookmarks": isMarked})
	initial := true
	watching, err = maps.Watch(ctx, metav1.ListOptions{
		AllowWatchBookmarks: true, SendInitialEvents: &initial, TimeoutSeconds: &seconds,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, FieldSelector: "metadata.name=contested",
	})
	if err != nil {
		return err
	}
	begun := told(watching, func(soFar seen) bool { return soFar.isBegun })
	tell("watch list", fields{"events": begun.events, "has begun": begun.isBegun})
	return nil
}

// seen is what a watch brought: its events, whether a bookmark came, and the one that ends the beginning.
type seen struct {
	events            []string
	isMarked, isBegun bool
}

// told reads a watch until it brought enough, or to its end.
func told(watching watch.Interface, isEnough func(seen) bool) seen {
	defer watching.Stop()
	all := seen{events: []string{}}
	for event := range watching.ResultChan() {
		one, err := meta.Accessor(event.Object)
		switch {
		case err != nil:
			all.events = append(all.events, fmt.Sprintf("%s %v", event.Type, apierrors.FromObject(event.Object)))
		case event.Type == watch.Bookmark:
			all.isMarked = true
			all.isBegun = all.isBegun || one.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
		default:
			all.events = append(all.events, fmt.Sprintf("%s %s", event.Type, one.GetName()))
		}
		if isEnough(all) {
			break
		}
	}
	return all
}

// leads takes a lease, gives it back, and takes it as somebody else.
func (c *client) leads(ctx context.Context) error {
	for _, who := range []string{"one", "two"} {
		lock, err := resourcelock.NewFromKubeconfig(
			resourcelock.LeasesResourceLock, c.namespace, "leader", resourcelock.ResourceLockConfig{Identity: who}, c.config,
			3*time.Second,
		)
		if err != nil {
			return err
		}
		term, end := context.WithTimeout(ctx, time.Minute)
		leaderelection.RunOrDie(term, leaderelection.LeaderElectionConfig{
			Lock: lock, LeaseDuration: 5 * time.Second, RenewDeadline: 3 * time.Second, RetryPeriod: 100 * time.Millisecond,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { end() },
				OnStoppedLeading: func() {},
			},
		})
		lease, err := c.typed.CoordinationV1().Leases(c.namespace).Get(ctx, "leader", metav1.GetOptions{})
		if err != nil {
			return err
		}
		tell("lead", fields{"who": who, "terms": lease.Spec.LeaseTransitions, "holder": lease.Spec.HolderIdentity})
	}
	return nil
}

func (c *client) deletions(ctx context.Context) error {
	pods := c.typed.CoreV1().Pods(c.namespace)
	other := types.UID("somebody else")
	err := pods.Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	tell("delete another", fields{"conflict": apierrors.IsConflict(err), "words": strings.Contains(said(err), "UID")})
	now, background := int64(0), metav1.DeletePropagationBackground
	options := metav1.DeleteOptions{GracePeriodSeconds: &now, PropagationPolicy: &background}
	if err := pods.Delete(ctx, "a", options); err != nil {
		return err
	}
	if err := pods.DeleteCollection(ctx, options, metav1.ListOptions{LabelSelector: "name in (b,c)"}); err != nil {
		return err
	}
	left, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	sets := c.dynamic.Resource(podCliqueSets).Namespace(c.namespace)
	if err := sets.Delete(ctx, "chat", metav1.DeleteOptions{}); err != nil {
		return err
	}
	_, gone := sets.Get(ctx, "chat", metav1.GetOptions{})
	tell("delete", fields{"left": namesOf(left.Items), "gone": apierrors.IsNotFound(gone)})
	return nil
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func causesOf(err error) []string {
	found := []string{}
	status, isStatus := err.(apierrors.APIStatus)
	if !isStatus || status.Status().Details == nil {
		return found
	}
	for _, cause := range status.Status().Details.Causes {
		found = append(found, fmt.Sprintf("%s %s", cause.Field, cause.Type))
	}
	return found
}

func managersOf(obj metav1.Object) []string {
	found := []string{}
	for _, entry := range obj.GetManagedFields() {
		found = append(found, fmt.Sprintf("%s %s", entry.Manager, entry.Operation))
	}
	sort.Strings(found)
	return found
}

func namesOf(pods []corev1.Pod) []string {
	found := []string{}
	for _, pod := range pods {
		found = append(found, pod.Name)
	}
	return found
}

// quietPod is one that no scheduler touches.
func quietPod(name string) *corev1.Pod {
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}},
		Spec: corev1.PodSpec{
			SchedulerName:                "nobody",
			AutomountServiceAccountToken: &no,
			Containers:                   []corev1.Container{{Name: "main", Image: "example.org/one:1"}},
		},
	}
}

func smallSet(name string) *unstructured.Unstructured {
	pod := map[string]any{"containers": []any{map[string]any{"name": "main", "image": "example.org/one:1"}}}
	clique := map[string]any{
		"name": "worker",
		"spec": map[string]any{"roleName": "worker", "replicas": int64(1), "podSpec": pod},
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "grove.io/v1alpha1",
		"kind":       "PodCliqueSet",
		"metadata":   map[string]any{"name": name},
		"spec":       map[string]any{"replicas": int64(1), "template": map[string]any{"cliques": []any{clique}}},
	}}
}
