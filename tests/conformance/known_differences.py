"""Where the embedded API knowingly differs from a real one: the only list of them, with the reason.

Each entry is a test, as `module::name`, all of it or one of its parameters. On the embedded server a listed test must
fail, so that no entry outlives its difference; on the real server all must pass.
`docs/reference/embedded-cluster.md` has the same sentences for users.
"""

_REASONS: dict[str, tuple[str, ...]] = {
    "Errors of a client are always 4xx: where a real server answers 500, this one answers 400, 409 or 422": (
        "test_conform_apply::test_what_does_not_fit_the_kind_is_a_mistake_of_the_server",
        "test_conform_creation::test_a_version_cannot_be_given_to_a_new_object",
        "test_conform_eviction::test_dry_runs_must_agree",
        "test_conform_lists::test_a_version_of_one_object_must_be_a_number",
        "test_conform_pods::test_a_binding_needs_a_target",
        "test_conform_updates::test_of_a_strategic_patch_an_item_without_its_key_is_refused",
        "test_conform_watches::test_a_watch_from_what_is_no_version_is_refused",
    ),
    "If a part of a custom object had fields and is then applied empty, it is removed, not rejected as null": (
        "test_conform_apply_custom::test_what_is_applied_empty_after_it_was_full_is_refused_as_null",
    ),
    "Values of more than 100 characters are shortened in messages": (
        "test_conform_creation::test_long_values_are_quoted_in_full",
    ),
    "Without `fieldValidation` there are no warnings about unknown and duplicate fields of built-in kinds": (
        "test_conform_creation::test_unknown_fields_are_dropped_with_a_warning",
        "test_conform_creation::test_of_repeated_fields_the_last_counts_with_a_warning",
        "test_conform_updates::test_unknown_fields_in_a_patch_are_dropped_with_a_warning",
    ),
    "A null that a JSON patch writes into a map is dropped, not read as an empty string": (
        "test_conform_updates::test_a_json_patch_is_a_list_of_operations[add-no-value]",
        "test_conform_updates::test_a_json_patch_is_a_list_of_operations[copy-missing]",
    ),
    "The data of a ControllerRevision is compared by value, not byte by byte": (
        "test_conform_revisions::test_data_that_are_written_in_other_words_are_other_data",
    ),
    "Answers are JSON: no YAML, no protobuf": (
        "test_conform_forms::test_yaml_is_spoken",
        "test_conform_protobuf::test_answers_may_be_protobuf",
    ),
    "There is no anonymous user: a request without a token is unauthorized": (
        "test_conform_rbac::test_who_shows_no_token_is_anonymous",
        "test_conform_rbac::test_everybody_may_see_whether_it_is_well",
    ),
    "CEL rules that could take too long are not rejected: there is no cost estimation": (
        "test_conform_cel::test_a_rule_that_could_take_too_long_is_refused",
    ),
    "CEL rules cannot use `format`, `transformMap` and `transformMapEntry`: a CRD that does is rejected": (
        "test_conform_cel::test_named_formats_can_be_asked_for",
        "test_conform_cel::test_maps_can_be_made_of_maps",
    ),
    "CEL rules compare sets in order": ("test_conform_cel::test_sets_are_equal_in_any_order",),
    "OpenAPI v2 is not served; v3 is": ("test_conform_forms::test_schemas_are_told_in_the_older_way",),
    "Pods have only the subresources status, log, binding and eviction; a binding can be created only there": (
        "test_conform_pods::test_a_pod_has_more_doors",
        "test_conform_pods::test_bindings_can_be_made_by_themselves",
    ),
    "Pods need no service account, and get no token": (
        "test_conform_pods::test_a_pod_runs_as_the_account_of_its_namespace",
        "test_conform_pods::test_an_account_must_exist",
    ),
    "Defaults inside containers (probes, field references) and volumes are not set": (
        "test_conform_pods::test_defaults_reach_deep_into_containers",
    ),
    "Quantities are not normalized": ("test_conform_pods::test_quantities_are_written_in_one_way",),
    "A new node has no taint": ("test_conform_kinds::test_a_node_comes_with_its_status_and_unready",),
    "Two services may request the same node port: nothing listens there": (
        "test_conform_kubectl_verbs::test_a_port_on_nodes_is_given_once",
    ),
    "Objects may be nested at most 200 levels deep": (
        "test_conform_hostility::test_an_object_may_be_nested_as_deeply_as_anybody_likes",
    ),
    "The system priority classes have no objects": ("test_conform_kinds::test_the_system_has_priority_classes",),
}

# What a real server of an older release says otherwise than the tests, which quote the newest one.
_OLDER_RELEASES: dict[str, dict[str, tuple[str, ...]]] = {
    "1.35": {
        "Owner references were named without their place in the list": (
            "test_conform_creation::test_bad_metadata_is_named[owner-event]",
            "test_conform_creation::test_bad_metadata_is_named[owner-without-uid]",
            "test_conform_creation::test_an_owner_reference_says_all",
        ),
        "Names of services had to begin with a letter": (
            "test_conform_kinds::test_a_service_that_makes_no_sense_is_refused[dots]",
            "test_conform_kinds::test_the_name_of_a_service_may_begin_with_a_digit",
        ),
        "The words of the YAML decoder": (
            "test_conform_apply::test_what_is_no_yaml_is_refused",
            "test_conform_apply::test_what_is_no_object_is_refused",
            "test_conform_apply::test_a_key_that_stands_twice_is_refused_to_strict_clients",
        ),
        "Metadata that was applied through the status of a custom object was owned, although it was not taken": (
            "test_conform_apply::test_the_status_of_a_custom_object_is_applied_apart",
        ),
        "The format of a number was checked by its type alone": (
            "test_conform_crds::test_a_value_that_the_schema_does_not_allow_is_refused[number-with-fraction]",
            "test_conform_crds::test_a_value_that_the_schema_does_not_allow_is_refused[large-number]",
            "test_conform_crds::test_a_value_that_the_schema_does_not_allow_is_refused[huge-number]",
        ),
        "A deletion that does not read was not known": (
            "test_conform_deletion::test_options_that_make_no_sense_are_refused[unsafe-grace]",
            "test_conform_deletion::test_options_that_make_no_sense_are_refused[unsafe-policy]",
            "test_conform_deletion::test_options_that_make_no_sense_are_refused[unsafe-preconditions]",
            "test_conform_deletion::test_only_what_cannot_be_read_is_deleted_unread",
            "test_conform_deletion::test_a_collection_is_never_deleted_unread",
        ),
        "The words about a definition that is another than expected": (
            "test_conform_deletion::test_another_definition_than_expected_is_not_deleted",
        ),
        "Autoscalers did not count their generations": (
            "test_conform_kubectl_verbs::test_an_autoscaler_counts_its_generations",
        ),
        "Kinds had fewer fields": ("test_conform_crds::test_built_in_kinds_are_described_in_full",),
        "The words of the patch library": ("test_conform_updates::test_a_patch_that_is_no_json_is_refused",),
    }
}

KNOWN_DIFFERENCES = {test: reason for reason, tests in _REASONS.items() for test in tests}


def differences_of(server: object, version: str) -> dict[str, str]:
    """By test: why this server, of this release if it is the real one, answers otherwise."""
    if server == "embedded":
        return KNOWN_DIFFERENCES
    older = _OLDER_RELEASES.get(version.rpartition(".")[0], {})
    return {test: reason for reason, tests in older.items() for test in tests}
