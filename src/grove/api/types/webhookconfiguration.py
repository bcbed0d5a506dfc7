"""MutatingWebhookConfiguration and ValidatingWebhookConfiguration, decoded by one struct.

`installation/webhook_configurations.py` builds Grove's configurations.
"""

from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct


class WebhookConfiguration(WireStruct):
    metadata: ObjectMeta
    # Untyped, so that fields that others added to a webhook are kept when the operator corrects it.
    webhooks: tuple[JsonObject, ...] = ()
