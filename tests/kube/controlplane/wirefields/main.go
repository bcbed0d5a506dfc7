// Which number each field of a built-in kind has in protobuf, read off the Go types; and one filled object of each kind
// in both encodings. `wirefields numbers` and `wirefields samples` write JSON; numbers.py keeps it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// Whatever the embedded cluster reads: kinds that it stores, and bodies of its other doors.
var kinds = []string{
	"v1 Namespace", "v1 Node", "v1 Pod", "v1 Event", "v1 Service", "v1 Secret", "v1 ConfigMap", "v1 ServiceAccount",
	"v1 ResourceQuota", "v1 Binding", "v1 DeleteOptions",
	"coordination.k8s.io/v1 Lease", "autoscaling/v1 Scale", "autoscaling/v2 HorizontalPodAutoscaler",
	"apps/v1 ControllerRevision", "scheduling.k8s.io/v1 PriorityClass", "events.k8s.io/v1 Event",
	"policy/v1 PodDisruptionBudget", "policy/v1 Eviction",
	"rbac.authorization.k8s.io/v1 Role", "rbac.authorization.k8s.io/v1 RoleBinding",
	"rbac.authorization.k8s.io/v1 ClusterRole", "rbac.authorization.k8s.io/v1 ClusterRoleBinding",
	"authentication.k8s.io/v1 TokenRequest", "authentication.k8s.io/v1 TokenReview",
	"authentication.k8s.io/v1 SelfSubjectReview",
	"authorization.k8s.io/v1 SubjectAccessReview", "authorization.k8s.io/v1 SelfSubjectAccessReview",
	"authorization.k8s.io/v1 SelfSubjectRulesReview", "authorization.k8s.io/v1 LocalSubjectAccessReview",
	"admissionregistration.k8s.io/v1 MutatingWebhookConfiguration",
	"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration",
}

// Types whose JSON is not that of their fields.
var special = map[reflect.Type]string{
	reflect.TypeOf(metav1.Time{}):          "Time",
	reflect.TypeOf(metav1.MicroTime{}):     "MicroTime",
	reflect.TypeOf(metav1.FieldsV1{}):      "Raw",
	reflect.TypeOf(runtime.RawExtension{}): "Raw",
	reflect.TypeOf(resource.Quantity{}):    "Quantity",
	reflect.TypeOf(intstr.IntOrString{}):   "IntOrString",
}

type message map[string]string

var messages = map[string]message{}

func main() {
	var result any
	switch {
	case len(os.Args) == 2 && os.Args[1] == "numbers":
		result = numbers()
	case len(os.Args) == 2 && os.Args[1] == "samples":
		result = samples()
	default:
		fmt.Fprintln(os.Stderr, "usage: wirefields numbers|samples")
		os.Exit(2)
	}
	if err := json.NewEncoder(os.Stdout).Encode(result); err != nil {
		panic(err)
	}
}

func kindOf(text string) schema.GroupVersionKind {
	version, kind, _ := strings.Cut(text, " ")
	return schema.FromAPIVersionAndKind(version, kind)
}

func newObject(text string) runtime.Object {
	obj, err := scheme.Scheme.New(kindOf(text))
	if err != nil {
		panic(err)
	}
	return obj
}

func numbers() any {
	found := map[string]string{}
	for _, text := range kinds {
		found[text] = describe(reflect.TypeOf(newObject(text)).Elem())
	}
	return map[string]any{"kinds": found, "messages": messages}
}

// describe notes a message and all that it needs, and returns its name.
func describe(of reflect.Type) string {
	parts := strings.Split(of.PkgPath(), "/")
	name := strings.Join(append(parts[len(parts)-2:], of.Name()), ".")
	if _, known := messages[name]; known {
		return name
	}
	fields := message{}
	messages[name] = fields
	for i := range of.NumField() {
		field := of.Field(i)
		number, isField := numberOf(field)
		if !isField {
			continue
		}
		fields[number] = jsonName(field) + " " + typeName(field.Type, keepsZero(field))
	}
	return name
}

func numberOf(field reflect.StructField) (string, bool) {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	return parts[min(1, len(parts)-1)], len(parts) > 1
}

// jsonName is empty where the fields of the message stand in the message around it.
func jsonName(field reflect.StructField) string {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" && !strings.Contains(options, "inline") && !field.Anonymous {
		panic("no name in JSON: " + field.Name)
	}
	return name
}

func keepsZero(field reflect.StructField) bool {
	_, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	return !strings.Contains(options, "omit")
}

func typeName(of reflect.Type, keepsZero bool) string {
	if name, isSpecial := special[of]; isSpecial {
		return name
	}
	_, isMessage := reflect.PointerTo(of).MethodByName("Marshal")
	zero := ""
	if keepsZero {
		zero = "!"
	}
	switch of.Kind() {
	case reflect.Pointer:
		return "*" + typeName(of.Elem(), false)
	case reflect.Slice:
		switch {
		case of.Elem().Kind() == reflect.Uint8:
			return zero + "bytes"
		case isMessage:
			// A list that is a message of its own.
			return "items"
		}
		return "[]" + typeName(of.Elem(), true)
	case reflect.Map:
		return "{}" + typeName(of.Elem(), true)
	case reflect.Struct:
		return describe(of)
	case reflect.String:
		return zero + "string"
	case reflect.Bool:
		return zero + "bool"
	case reflect.Int32, reflect.Int64:
		return zero + "int"
	}
	panic("no wire type: " + of.String())
}

type sample struct {
	Protobuf []byte `json:"protobuf"`
	JSON     any    `json:"json"`
}

func samples() any {
	found := map[string]sample{}
	for _, text := range kinds {
		obj := newObject(text)
		fill(reflect.ValueOf(obj).Elem(), 3)
		obj.GetObjectKind().SetGroupVersionKind(kindOf(text))
		var wire strings.Builder
		serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
		if err := serializer.Encode(obj, &wire); err != nil {
			panic(err)
		}
		found[text] = sample{Protobuf: []byte(wire.String()), JSON: obj}
	}
	return found
}

var moment = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// fill gives every field a value; types that contain themselves end after some levels.
func fill(value reflect.Value, depth int) {
	switch value.Interface().(type) {
	case metav1.Time:
		value.Set(reflect.ValueOf(metav1.NewTime(moment)))
		return
	case metav1.MicroTime:
		value.Set(reflect.ValueOf(metav1.NewMicroTime(moment.Add(7 * time.Microsecond))))
		return
	case metav1.FieldsV1:
		value.Set(reflect.ValueOf(metav1.FieldsV1{Raw: []byte(`{"f:data":{}}`)}))
		return
	case runtime.RawExtension:
		value.Set(reflect.ValueOf(runtime.RawExtension{Raw: []byte(`{"any":["thing"]}`)}))
		return
	case resource.Quantity:
		value.Set(reflect.ValueOf(resource.MustParse("1500m")))
		return
	case intstr.IntOrString:
		value.Set(reflect.ValueOf(intstr.FromString("25%")))
		return
	}
	switch value.Kind() {
	case reflect.Pointer:
		value.Set(reflect.New(value.Type().Elem()))
		fill(value.Elem(), depth)
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte{0, 1, 254, 255})
			return
		}
		value.Set(reflect.MakeSlice(value.Type(), 2, 2))
		for i := range 2 {
			fill(value.Index(i), depth)
		}
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		for _, name := range []string{"a", "b"} {
			one := reflect.New(value.Type().Elem()).Elem()
			fill(one, depth)
			value.SetMapIndex(reflect.ValueOf(name).Convert(value.Type().Key()), one)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			if _, isField := numberOf(value.Type().Field(i)); isField {
				fill(value.Field(i), depth)
			}
		}
	case reflect.String:
		value.SetString("text ü")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int32:
		value.SetInt(-7)
	case reflect.Int64:
		value.SetInt(1 << 40)
	default:
		panic("cannot be filled: " + value.Type().String())
	}
}
