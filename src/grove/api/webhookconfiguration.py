"""The view of a MutatingWebhookConfiguration or ValidatingWebhookConfiguration: one shape serves both.

What ours say is in `installation/webhooks.py`.
"""

from grove.api.meta import JsonObject, ObjectMeta, Wire


class WebhookConfiguration(Wire):
    metadata: ObjectMeta
    # Verbatim: what somebody else added to a webhook must survive our corrections.
    webhooks: tuple[JsonObject, ...] = ()
