"""The view of a MutatingWebhookConfiguration or ValidatingWebhookConfiguration: one shape serves both.

What ours say is in `installation/webhook_configurations.py`.
"""

from grove.api.types.meta import JsonObject, ObjectMeta, WireStruct


class WebhookConfiguration(WireStruct):
    metadata: ObjectMeta
    # Verbatim: what somebody else added to a webhook must survive our corrections.
    webhooks: tuple[JsonObject, ...] = ()
